import type { DescMessage, Message, Registry } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { RequestError } from "../../http/request-error.ts";
import { withWideIntegers } from "../../json/exact.ts";
import { holdsInt64, messageHoldsInt64 } from "../../json/int64.ts";
import { parseJsonText } from "../../json/parse-json-text.ts";
import { createJsonReaders } from "../../json/read.ts";
import { setField } from "../../schema/field-value.ts";

export type DocumentReader = {
  /** Parses a document; throws a ConnectError if it is not JSON. */
  readonly parse: (text: string) => unknown;
  /** Reads a message from a parsed document; throws a ConnectError if it does not fit. */
  readonly read: (document: unknown) => Message;
};

export function createDocumentReader(
  desc: DescMessage,
  responseBody: string,
  { registry, ignoreUnknown }: { readonly registry: Registry; readonly ignoreUnknown: boolean },
): DocumentReader {
  const readers = createJsonReaders({ registry, ignoreUnknown, isResponse: true });
  const field = desc.fields.find(({ name }) => name === responseBody);
  if (field === undefined) {
    const read = readers.message(desc);
    return {
      parse: createParser(messageHoldsInt64(desc)),
      read: (json) => withReadingErrors(() => read(json, []) as Message),
    };
  }
  const read = readers.field(field);
  return {
    parse: createParser(holdsInt64(field)),
    read: (json) =>
      withReadingErrors(() => {
        const message = create(desc) as Message & Record<string, unknown>;
        const value = read(json, [field.jsonName]);
        if (value !== undefined) {
          setField(message, field, value);
        }
        return message;
      }),
  };
}

/** True if there may be an integer that JSON.parse rounds. */
const wideInteger = /\d{16}|\d[eE]/;

function createParser(exact: boolean): (text: string) => unknown {
  return (text) => {
    let document: unknown;
    try {
      document = parseJsonText(text);
    } catch (cause) {
      throw unreadable("it is not JSON", cause);
    }
    return exact && wideInteger.test(text) ? withWideIntegers(document, text, parseJsonText) : document;
  };
}

function withReadingErrors(read: () => Message): Message {
  try {
    return read();
  } catch (error) {
    throw unreadable(error instanceof RequestError ? error.message : String(error), error);
  }
}

export function unreadable(why: string, cause?: unknown): ConnectError {
  return new ConnectError(`can't read the response: ${why}`, Code.Internal, undefined, undefined, cause);
}
