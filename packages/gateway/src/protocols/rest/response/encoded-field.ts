import { create, type DescMessage, type Message } from "@bufbuild/protobuf";
import { concatBytes, encodeUtf8 } from "#platform/bytes";
import { getEncodedMessage } from "../../../call/encoded-message.ts";
import { jsonKey, type CompleteJsonOptions } from "../../../json/json-options.ts";
import { formatJson } from "../../../json/well-formed.ts";
import type { JsonWriter } from "../../../json/write.ts";
import { fieldRule } from "../../../schema/rules.ts";

const encoded = new WeakMap<Message, ReadonlyMap<string, Uint8Array>>();

/**
 * Attaches the JSON of a field, in UTF-8, to a response message. The gateway sends these bytes and does not read the
 * field, which can be a getter for other protocols. `localName` is the field's name in the message; the field must not
 * have the options `header` or `inline`.
 */
export function setEncodedField<T extends Message>(message: T, localName: keyof T & string, json: Uint8Array): T {
  encoded.set(message, new Map(encoded.get(message)).set(localName, json));
  return message;
}

/** Writes the JSON of a body that is encoded or contains encoded fields; returns undefined for other messages. */
export type EncodedBodyWriter = (message: Message) => Uint8Array | undefined;

/** Compiles the writer of a body with encoded fields. `name` is the response_body; `write` writes the same body without them. */
export function createEncodedBodyWriter(
  desc: DescMessage,
  name: string,
  write: JsonWriter,
  json: CompleteJsonOptions,
): EncodedBodyWriter {
  if (name !== "") {
    const localName = desc.fields.find((field) => field.name === name)?.localName ?? name;
    return (message) => encoded.get(message)?.get(localName);
  }
  const declared = desc.fields
    .filter((field) => !fieldRule(field).inline)
    .map((field) => ({ key: jsonKey(field, json), localName: field.localName }));
  return (message) => {
    const whole = getEncodedMessage(message, "http");
    if (whole !== undefined) {
      return whole;
    }
    const fields = encoded.get(message);
    return fields && concatBytes([...writeMembers(declared, fields, write(withoutFields(desc, message, fields)))]);
  };
}

/** Writes an object: first the members in the order of the fields, then the members of an inline field. */
function* writeMembers(
  declared: readonly { readonly key: string; readonly localName: string }[],
  encodedFields: ReadonlyMap<string, Uint8Array>,
  value: unknown,
): Generator<Uint8Array> {
  const written = value as { readonly [key: string]: unknown };
  const names = new Set([...declared.map(({ key }) => key), ...Object.keys(written)]);
  const byName = new Map(declared.map(({ key, localName }) => [key, encodedFields.get(localName)]));
  let separator = "{";
  for (const name of names) {
    const json = byName.get(name);
    if (json !== undefined || Object.hasOwn(written, name)) {
      yield encodeUtf8(`${separator}${JSON.stringify(name)}:`);
      yield json ?? encodeUtf8(formatJson(written[name]));
      separator = ",";
    }
  }
  yield encodeUtf8("}");
}

function withoutFields(desc: DescMessage, message: Message, omitted: ReadonlyMap<string, unknown>): Message {
  const rest = create(desc) as Message & Record<string, unknown>;
  for (const { localName } of desc.members) {
    if (!omitted.has(localName)) {
      const value = (message as Message & Record<string, unknown>)[localName];
      if (value !== undefined) {
        rest[localName] = value;
      }
    }
  }
  return rest;
}
