import { fieldRule } from "../schema/rules.ts";
import { ScalarType, type DescField, type DescMessage } from "@bufbuild/protobuf";

const wide = new Set<ScalarType | undefined>([
  ScalarType.INT64,
  ScalarType.UINT64,
  ScalarType.SINT64,
  ScalarType.FIXED64,
  ScalarType.SFIXED64,
]);

export function isInt64(type: ScalarType | undefined): boolean {
  return wide.has(type);
}

/** True if the JSON of a field can contain a 64-bit integer, or another integer that must not be rounded. */
export function holdsInt64(field: DescField, seen: Set<DescMessage> = new Set()): boolean {
  return (
    fieldRule(field).exactIntegers ||
    (field.message === undefined ? isInt64(field.scalar) : messageHoldsInt64(field.message, seen))
  );
}

/** True if the JSON of a message can contain a 64-bit integer. */
export function messageHoldsInt64(desc: DescMessage, seen: Set<DescMessage> = new Set()): boolean {
  if (seen.has(desc) || textual.has(desc.typeName)) {
    return false;
  }
  seen.add(desc);
  // It may contain any message.
  if (desc.typeName === "google.protobuf.Any") {
    return true;
  }
  return desc.fields.some((field) => holdsInt64(field, seen));
}

/** Messages whose 64-bit integers are part of a string. */
const textual = new Set(["google.protobuf.Timestamp", "google.protobuf.Duration"]);
