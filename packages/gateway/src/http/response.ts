import type { ContentEncoding } from "../platform/compression.ts";

export type GatewayResponse = {
  readonly status: number;
  /** By lower-case name. */
  readonly headers: Record<string, string | string[]>;
  /**
   * A string is sent in one write with the header; bytes are for large bodies that are sent repeatedly. For an
   * iterable, the server must call `return` when the client disconnects, and must abort the connection or stream if the iterable
   * throws.
   * Undefined: no body.
   */
  readonly body: string | Uint8Array | AsyncIterable<string | Uint8Array> | undefined;
  /** Trailer fields, sent after the body. For a streamed body they are complete only after it has ended. */
  readonly trailers?: Readonly<Record<string, string | string[]>>;
  /** Caches the compressed forms of a body that is sent repeatedly. Absent: the body is compressed for this response only. */
  readonly compressed?: Map<ContentEncoding, Promise<Uint8Array>>;
};

export function jsonResponse(
  status: number,
  headers: Record<string, string | string[]>,
  value: unknown,
): GatewayResponse {
  headers["content-type"] = "application/json";
  return { status, headers, body: JSON.stringify(value) };
}

/**
 * Headers that implementations can't set: connection-specific ones (RFC 9110, section 7.6.1), headers that describe the
 * body, and `__proto__`, which is a valid header name but not usable as a property.
 */
const notForwarded = new Set([
  "__proto__",
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/**
 * Adds the headers that an implementation set. Connection-specific and body headers, `grpc-*`, `connect-*` and
 * values that are not visible ASCII are left out.
 */
export function addHeaders(target: Record<string, string | string[]>, source: Iterable<[string, string]>): void {
  for (const [name, value] of source) {
    if (notForwarded.has(name) || name.startsWith("grpc-") || name.startsWith("connect-") || !isHeaderValue(value)) {
      continue;
    }
    if (name === "vary") {
      addVary(target, value);
    } else if (Object.hasOwn(target, name)) {
      target[name] = [target[name] ?? [], value].flat();
    } else {
      target[name] = value;
    }
  }
}

/** True if a value consists of visible ASCII, spaces and tabs, the interoperable part of RFC 9110, section 5.5. */
export function isHeaderValue(value: string): boolean {
  return /^[\t\x20-\x7e]*$/.test(value);
}

/** Adds a request header to Vary (RFC 9110, section 12.5.5), without duplicates. */
export function addVary(headers: Record<string, string | string[]>, name: string): void {
  const before = headers["vary"];
  headers["vary"] = before === undefined ? name : mergeVary(before, name);
}

/** One name. */
const single = /^[\w-]+$/;

/** Merges two values of Vary; the first may have been set by a response hook. */
function mergeVary(first: string | readonly string[], second: string): string {
  // The usual case, which occurs for most responses.
  if (typeof first === "string" && single.test(first) && single.test(second)) {
    return first.toLowerCase() === second.toLowerCase() ? first : `${first}, ${second}`;
  }
  const names = new Map<string, string>();
  for (const name of [first, second].flat().join(",").split(",")) {
    const trimmed = name.trim();
    if (trimmed !== "" && !names.has(trimmed.toLowerCase())) {
      names.set(trimmed.toLowerCase(), trimmed);
    }
  }
  // "*" includes every header.
  return names.has("*") ? "*" : [...names.values()].join(", ");
}
