import { fromJson, toJson, type DescMessage, type JsonObject, type Message } from "@bufbuild/protobuf";
import { StructSchema } from "@bufbuild/protobuf/wkt";

// protobuf-es represents a google.protobuf.Struct in a field as a plain object. Readers return and writers accept that form.
// As a request, as a response and in an Any, a Struct is a message.

/** The depth was limited when it was read; protobuf-es counts several messages for each level of JSON. */
const recursionLimit = 1_000_000;

export function asMessage(desc: DescMessage, value: unknown): Message {
  return desc.typeName === StructSchema.typeName
    ? fromJson(StructSchema, value as JsonObject, { recursionLimit })
    : (value as Message);
}

export function asValue(desc: DescMessage, message: unknown): unknown {
  return desc.typeName === StructSchema.typeName ? toJson(desc, message as Message) : message;
}
