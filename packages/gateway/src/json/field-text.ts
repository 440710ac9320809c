import type { DescMessage, Message } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { enumNames } from "../schema/rules.ts";
import type { Scalar } from "./scalar.ts";

/**
 * Compiles the reader of a scalar or enum field as text; empty if the field is not set. Throws an Error if there is no
 * such field, or if it is a member of a oneof. `use`, the purpose of the field, completes the error.
 */
export function createFieldTextReader(desc: DescMessage, name: string, use: string): (message: Message) => string {
  const field = desc.fields.find((each) => each.name === name);
  if ((field?.fieldKind !== "scalar" && field?.fieldKind !== "enum") || field.oneof !== undefined) {
    throw new Error(`${desc.typeName} has no scalar field "${name}" for ${use}`);
  }
  const { localName } = field;
  const hasPresence = field.presence !== FeatureSet_FieldPresence.IMPLICIT;
  const names = field.fieldKind === "enum" ? enumNames(field.enum).nameOf : undefined;
  return (message) => {
    const value = (message as unknown as Record<string, Scalar | undefined>)[localName];
    // In proto2 and editions, an unset field has its default value on the prototype.
    return value === undefined || (hasPresence && !Object.hasOwn(message, localName))
      ? ""
      : (names?.get(value as number) ?? String(value));
  };
}
