import type { DescMessage, Message, Registry } from "@bufbuild/protobuf";
import { getField } from "../schema/field-value.ts";
import { canonicalJson, type CompleteJsonOptions } from "./json-options.ts";
import { asValue } from "./struct.ts";
import { fieldWriter, messageWriter, type JsonWriter, type WriteDialect } from "./write.ts";

/** Compiles the JSON of a body: the message, or the field that `name`, a response_body, names (null if unset). */
export function createBodyWriter(
  desc: DescMessage,
  name: string,
  registry: Registry,
  dialect: WriteDialect = "response",
  json: CompleteJsonOptions = canonicalJson,
): JsonWriter {
  if (name === "") {
    const write = messageWriter(desc, registry, dialect, json);
    return desc.typeName === "google.protobuf.Struct" ? (message) => write(asValue(desc, message)) : write;
  }
  const field = desc.fields.find((each) => each.name === name);
  if (field === undefined) {
    throw new Error(`${desc.typeName} has no field "${name}" that can be the response_body`);
  }
  const write = fieldWriter(field, registry, dialect, json);
  return (message) => {
    const value = getField(message as Message & Record<string, unknown>, field);
    return value === undefined ? null : write(value);
  };
}
