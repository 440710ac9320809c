import type { DescField, DescMessage } from "@bufbuild/protobuf";

/** The way from a message down to one of its fields; all but the last are singular messages. */
export type FieldPath = readonly DescField[];

/** Resolves "a.b.c", each a name as in the .proto. Throws an Error that says which part leads nowhere. */
export function resolveFieldPath(message: DescMessage, path: string): FieldPath {
  const fields: DescField[] = [];
  let parent: DescMessage | undefined = message;
  for (const name of path.split(".")) {
    if (parent === undefined) {
      throw new Error(`${fields.at(-1)?.toString()} is no single message, so "${path}" leads nowhere`);
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

/** Whether one text says the whole value of the field: it can be bound from a path. */
export function isTextField(field: DescField): boolean {
  return (
    field.fieldKind === "scalar" ||
    field.fieldKind === "enum" ||
    (field.fieldKind === "message" && textMessages.has(field.message.typeName))
  );
}

/** Their JSON form is no object of their fields: nobody reaches into them. */
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
