import type { DescField, DescMessage } from "@bufbuild/protobuf";
import { fieldRule } from "./rules.ts";

export function headerFields(desc: DescMessage): DescField[] {
  return desc.fields.filter((field) => fieldRule(field).header !== "");
}

/** True if a field is singular and not a member of a oneof, as the `header` option requires. */
export function isSingularOutsideOneof(field: DescField): boolean {
  return field.fieldKind !== "list" && field.fieldKind !== "map" && field.oneof === undefined;
}
