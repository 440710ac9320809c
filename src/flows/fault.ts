import { FlowgateError } from "../errors.ts";
import { formatPath, type JsonPath } from "@flowgate/transcoding/json-path";

/** What is wrong with a value, and where below it. */
export type Fault = { readonly path: JsonPath; readonly what: string };

export function under(key: string | number, fault: Fault): Fault {
  return { path: [key, ...fault.path], what: fault.what };
}

export function at(key: string | number, fault: Fault | undefined): Fault | undefined {
  return fault && under(key, fault);
}

export function invalidFlows({ path, what }: Fault): FlowgateError {
  return new FlowgateError("invalid_flows", `${formatPath(path)}: ${what}`);
}

/** Messages are sent in headers over gRPC, which hold a few kilobytes. */
const MAX_QUOTED = 64;

/** What a client sent, quoted for a message and shortened. */
export function quote(text: string): string {
  return JSON.stringify(text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED)}…` : text);
}
