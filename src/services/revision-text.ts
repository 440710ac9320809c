import { FlowgateError } from "../errors.ts";

const maxMessageChars = 1_000;

/** Validates the message of a revision; undefined: it is empty. */
export function parseMessage(text: string, protocol: string | undefined): string | undefined {
  // Node decodes header values as ISO 8859-1, but clients such as curl send UTF-8.
  const message = protocol === "rest" ? decodeUtf8(text) : text;
  if (message.length > maxMessageChars) {
    throw new FlowgateError("invalid_argument", `message: must have at most ${maxMessageChars} characters`);
  }
  if (!message.isWellFormed()) {
    throw new FlowgateError("invalid_argument", "message: must be valid Unicode, without lone surrogates");
  }
  return message === "" ? undefined : message;
}

function decodeUtf8(text: string): string {
  if (/[^\p{ASCII}\u0080-\u00ff]/u.test(text)) {
    return text;
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(text, "latin1"));
  } catch {
    return text;
  }
}
