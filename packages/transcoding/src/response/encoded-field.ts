import { create, type DescMessage, type Message } from "@bufbuild/protobuf";
import type { JsonWriter } from "../json/write.ts";
import { fieldRule } from "../schema/rules.ts";

const encoded = new WeakMap<Message, ReadonlyMap<string, Uint8Array>>();

/**
 * Gives a response the JSON of one of its fields, in UTF-8, as HTTP answers have it. The transcoder sends it as it is, and does
 * not read the field, which can be a getter for other protocols. `localName` is the field's name in the message; it is in no
 * header and not inline.
 */
export function setEncodedField<T extends Message>(message: T, localName: keyof T & string, json: Uint8Array): T {
  encoded.set(message, new Map(encoded.get(message)).set(localName, json));
  return message;
}

/** The JSON of a body with encoded fields; undefined for a message that has none of those that the body needs. */
export type EncodedBodyWriter = (message: Message) => Buffer | undefined;

/** `name` as in response_body; `write` makes the value of the same body. */
export function createEncodedBodyWriter(desc: DescMessage, name: string, write: JsonWriter): EncodedBodyWriter {
  if (name !== "") {
    const localName = desc.fields.find((field) => field.name === name)?.localName ?? name;
    return (message) => {
      const json = encoded.get(message)?.get(localName);
      return json && asBuffer(json);
    };
  }
  const declared = desc.fields.filter((field) => !fieldRule(field).inline);
  return (message) => {
    const given = encoded.get(message);
    return given && Buffer.concat([...writeMembers(declared, given, write(withoutFields(desc, message, given)))]);
  };
}

/** The members in the order of the fields, and those of an inline one behind, as the writer has them. */
function* writeMembers(
  declared: DescMessage["fields"],
  given: ReadonlyMap<string, Uint8Array>,
  value: unknown,
): Generator<Uint8Array> {
  const written = value as { readonly [key: string]: unknown };
  const names = new Set([...declared.map(({ jsonName }) => jsonName), ...Object.keys(written)]);
  const byName = new Map(declared.map(({ jsonName, localName }) => [jsonName, given.get(localName)]));
  let separator = "{";
  for (const name of names) {
    const json = byName.get(name);
    if (json !== undefined || Object.hasOwn(written, name)) {
      yield Buffer.from(`${separator}${JSON.stringify(name)}:`);
      yield json ?? Buffer.from(JSON.stringify(written[name]));
      separator = ",";
    }
  }
  yield Buffer.from("}");
}

function withoutFields(desc: DescMessage, message: Message, given: ReadonlyMap<string, unknown>): Message {
  const rest = create(desc) as Message & Record<string, unknown>;
  for (const { localName } of desc.members) {
    if (!given.has(localName)) {
      const value = (message as Message & Record<string, unknown>)[localName];
      if (value !== undefined) {
        rest[localName] = value;
      }
    }
  }
  return rest;
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
