import type { DescField, DescMessage } from "@bufbuild/protobuf";
import { fieldRule } from "./rules.ts";

/** The fields of a message that have the `header` option. */
export function headerFields(desc: DescMessage): DescField[] {
  return desc.fields.filter((field) => fieldRule(field).header !== "");
}

/** A single value outside a oneof: the only kind of field that a header can hold. */
export function isSingle(field: DescField): boolean {
  return field.fieldKind !== "list" && field.fieldKind !== "map" && field.oneof === undefined;
}
