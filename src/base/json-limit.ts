import { scanStructure } from "@flowgate/gateway/json";
import { FlowgateError } from "@flowgate/flows/errors";

/** More is not JSON that is parsed on the event loop: flows are read by the gateway. */
const maxBytes = 1024 * 1024;

/** Arrays, objects and their members. Parsing a megabyte of nothing else takes ten times as long as parsing flows of that size. */
const maxValues = 65_536;

/** The same as in flows. */
const maxDepth = 100;

/** The error for JSON that takes the event loop long to parse, to merge or to write again; undefined if it may be parsed. `name` begins the message. */
export function explainJsonLimit(json: Uint8Array, name: string): FlowgateError | undefined {
  if (json.length > maxBytes) {
    return new FlowgateError("payload_too_large", `${name} may have at most ${maxBytes} bytes of JSON`);
  }
  const { commas, containers, depth } = scanStructure(json);
  if (depth > maxDepth) {
    return new FlowgateError("invalid_argument", `${name} is nested more than ${maxDepth} levels deep`);
  }
  return commas + containers > maxValues
    ? new FlowgateError("payload_too_large", `${name} may have at most ${maxValues} values: send less at once`)
    : undefined;
}
