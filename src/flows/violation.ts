import { FlowgateError } from "../errors.ts";
import { formatPath, type JsonPath } from "@flowgate/transcoding/json-path";

/** What is wrong with a value, and where below it. */
export type Violation = { readonly path: JsonPath; readonly what: string };

export function prependKey(key: string | number, violation: Violation): Violation {
  return { path: [key, ...violation.path], what: violation.what };
}

export function prependKeyIfFound(key: string | number, violation: Violation | undefined): Violation | undefined {
  return violation && prependKey(key, violation);
}

export function invalidFlows({ path, what }: Violation): FlowgateError {
  return new FlowgateError("invalid_flows", `${formatPath(path)}: ${what}`);
}

/** Messages are sent in headers over gRPC, which hold a few kilobytes. */
const MAX_QUOTED = 64;

/** What a client sent, quoted for a message and shortened. */
export function quote(text: string): string {
  return JSON.stringify(text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED)}…` : text);
}
