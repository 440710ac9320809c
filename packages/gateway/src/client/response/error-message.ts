import type { DescMessage, Message, Registry } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import { RequestError } from "../../http/request-error.ts";
import { createJsonReaders } from "../../json/read.ts";
import { isObject } from "../../json/is-object.ts";
import { errorRule, fieldRule } from "../../schema/rules.ts";
import { createHeaderFieldsReader } from "./headers.ts";

/** An error body that is a message with the `error` option. */
type ErrorMessage = {
  readonly desc: DescMessage;
  readonly message: Message;
  /** Its human-readable message. */
  readonly text: string | undefined;
};

/**
 * Reads an error body as the first message that it fits; undefined if there is none. `document` is undefined for an empty body,
 * and `status` undefined within a stream.
 */
export type ErrorMessageReader = (
  document: unknown,
  status: number | undefined,
  header: Headers,
) => ErrorMessage | undefined;

/** Compiles the messages with the `error` option, first the one with the full name `preferred`. */
export function createErrorMessageReader(registry: Registry, preferred: string): ErrorMessageReader {
  const candidates = [...registry]
    .filter((type) => type.kind === "message")
    .toSorted((a, b) => Number(b.typeName === preferred) - Number(a.typeName === preferred))
    .flatMap((desc) => compileCandidate(desc, registry) ?? []);
  return (document, status, header) => {
    for (const read of candidates) {
      const message = read(document, status, header);
      if (message !== undefined) {
        return message;
      }
    }
    return undefined;
  };
}

function compileCandidate(desc: DescMessage, registry: Registry): ErrorMessageReader | undefined {
  const rule = errorRule(desc);
  if (rule === undefined) {
    return undefined;
  }
  const setHeaderFields = createHeaderFieldsReader(desc);
  // Unknown keys are rejected, since they show that the body is another message.
  const read = createJsonReaders({ ignoreUnknown: false, registry }).message(desc);
  const hasBody = desc.fields.some((field) => fieldRule(field).header === "");
  const names = desc.fields.filter(({ name }) => name === rule.reason || name === rule.message);
  const header = desc.fields.map((field) => fieldRule(field).header).find((name) => name !== "");
  const textField = desc.fields.find(({ name }) => name === rule.message);
  const complete = (message: Message, headers: Headers): ErrorMessage => {
    setHeaderFields(message, headers);
    const text = textField && (message as Message & Record<string, unknown>)[textField.localName];
    return { desc, message, text: typeof text === "string" && text !== "" ? text : undefined };
  };
  return (document, status, headers) => {
    if (rule.status !== 0 && rule.status !== status) {
      return undefined;
    }
    if (!hasBody) {
      const isSent = document === undefined && header !== undefined && headers.has(header);
      return isSent ? complete(create(desc), headers) : undefined;
    }
    if (!isObject(document) || !names.every(({ jsonName }) => Object.hasOwn(document, jsonName))) {
      return undefined;
    }
    try {
      return complete(read(document, []) as Message, headers);
    } catch (error) {
      if (error instanceof RequestError) {
        return undefined;
      }
      throw error;
    }
  };
}
