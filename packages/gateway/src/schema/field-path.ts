import type { DescField, DescMessage } from "@bufbuild/protobuf";

/** The fields from a message down to a nested field; all but the last are singular message fields. */
export type FieldPath = readonly DescField[];

/** Resolves a path such as "a.b.c" of proto field names. Throws an Error that names the part that can't be resolved. */
export function resolveFieldPath(message: DescMessage, path: string): FieldPath {
  const fields: DescField[] = [];
  let parent: DescMessage | undefined = message;
  for (const name of path.split(".")) {
    if (parent === undefined) {
      throw new Error(`${fields.at(-1)?.toString()} is not a singular message, so "${path}" can't be resolved`);
    }
    const field: DescField | undefined = parent.fields.find((each) => each.name === name);
    if (field === undefined) {
      throw new Error(`${parent.typeName} has no field "${name}"`);
    }
    fields.push(field);
    parent = field.fieldKind === "message" && !isWellKnown(field.message) ? field.message : undefined;
  }
  return fields;
}

/** True if the whole value of a field can be written as one string, so that a path variable can bind it. */
export function isTextField(field: DescField): boolean {
  return (
    field.fieldKind === "scalar" ||
    field.fieldKind === "enum" ||
    (field.fieldKind === "message" && textMessages.has(field.message.typeName))
  );
}

/** True if a value of a field, or an item of a list or map, can be written as a parameter: as text, or as JSON. */
export function hasParameterForm({ message }: DescField): boolean {
  return message === undefined || (isWellKnown(message) && message.typeName !== "google.protobuf.Any");
}

/** True if the JSON form is not an object of the message's fields; field paths don't descend into such messages. */
function isWellKnown(message: DescMessage): boolean {
  return textMessages.has(message.typeName) || otherWellKnown.has(message.typeName);
}

/** Well-known types whose JSON form is a string, a number or a boolean. */
const textMessages = new Set(
  [
    "BoolValue",
    "BytesValue",
    "DoubleValue",
    "Duration",
    "FieldMask",
    "FloatValue",
    "Int32Value",
    "Int64Value",
    "StringValue",
    "Timestamp",
    "UInt32Value",
    "UInt64Value",
  ].map((name) => `google.protobuf.${name}`),
);

const otherWellKnown = new Set(["Any", "ListValue", "Struct", "Value"].map((name) => `google.protobuf.${name}`));
