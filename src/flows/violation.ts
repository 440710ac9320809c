import { FlowgateError } from "../errors.ts";
import { formatPath, type JsonPath } from "@flowgate/gateway/json-path";

/** Why a value is invalid; `path` leads from the value to the invalid part. */
export type Violation = { readonly path: JsonPath; readonly message: string };

export function prependKey(key: string | number, violation: Violation): Violation {
  return { path: [key, ...violation.path], message: violation.message };
}

export function prependKeyIfFound(key: string | number, violation: Violation | undefined): Violation | undefined {
  return violation && prependKey(key, violation);
}

export function invalidFlows({ path, message }: Violation): FlowgateError {
  return new FlowgateError("invalid_flows", `${formatPath(path)}: ${message}`);
}

/** gRPC sends messages in headers, which are limited to a few kilobytes. */
const maxQuotedChars = 64;

/** Quotes and shortens text of the client for a message. */
export function quoteInput(text: string): string {
  return JSON.stringify(text.length > maxQuotedChars ? `${text.slice(0, maxQuotedChars)}…` : text);
}
