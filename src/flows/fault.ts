import { FlowgateError } from "../errors.ts";

type Path = readonly (string | number)[];

/** What is wrong with a value, and where below it. */
export type Fault = { readonly path: Path; readonly what: string };

export function under(key: string | number, fault: Fault): Fault {
  return { path: [key, ...fault.path], what: fault.what };
}

export function at(key: string | number, fault: Fault | undefined): Fault | undefined {
  return fault && under(key, fault);
}

export function invalidFlows({ path, what }: Fault): FlowgateError {
  return new FlowgateError("invalid_flows", `${formatPath(path)}: ${what}`);
}

/** `flows[3].wires[0][1]`; a key that is no identifier is quoted: `flows[3]["odd key"]`. */
function formatPath(path: Path): string {
  return path.map((segment, index) => formatSegment(segment, index === 0)).join("");
}

/** What a client sent, quoted for a message. */
export function quote(text: string): string {
  return JSON.stringify(shorten(text));
}

function formatSegment(segment: string | number, first: boolean): string {
  if (typeof segment === "number") {
    return `[${segment}]`;
  }
  if (!/^[A-Za-z_$][\w$]*$/.test(segment) || segment.length > MAX_QUOTED) {
    return `[${quote(segment)}]`;
  }
  return first ? segment : `.${segment}`;
}

// Messages travel in headers over gRPC, which hold a few kilobytes.
const MAX_QUOTED = 64;

function shorten(text: string): string {
  return text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED)}…` : text;
}
