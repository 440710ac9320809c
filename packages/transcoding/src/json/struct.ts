import { fromJson, toJson, type DescMessage, type JsonObject, type Message } from "@bufbuild/protobuf";
import { StructSchema } from "@bufbuild/protobuf/wkt";

// protobuf-es keeps a google.protobuf.Struct in a field as plain JSON, and so readers give it and writers take it. As a
// request, a response, or in an Any, it is a message.

/** Its depth was bounded when it was read; each level of JSON counts as several messages. */
const recursionLimit = 1_000_000;

/** What a reader gave, as a message. */
export function asMessage(desc: DescMessage, value: unknown): Message {
  return desc.typeName === StructSchema.typeName
    ? fromJson(StructSchema, value as JsonObject, { recursionLimit })
    : (value as Message);
}

/** A message, as its writer takes it. */
export function asValue(desc: DescMessage, message: unknown): unknown {
  return desc.typeName === StructSchema.typeName ? toJson(desc, message as Message) : message;
}
