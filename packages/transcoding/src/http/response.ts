import type { ContentEncoding } from "./content-coding.ts";
import { addVary } from "./vary.ts";

/** The HTTP response to a call; without a body where `body` is undefined. */
export type TranscodingResponse = {
  readonly status: number;
  /** By lower-case name. */
  readonly headers: Record<string, string | string[]>;
  /**
   * Text goes out in one piece with the head; bytes are for what is large and sent again and again. Who sends an
   * iterable calls its `return` when the client has gone, and breaks the connection off where it throws.
   */
  readonly body: string | Buffer | AsyncIterable<string | Uint8Array> | undefined;
  /** Trailer fields, sent after the body; of a body that streams they are read when it has ended. Absent: none. */
  readonly trailers?: Readonly<Record<string, string | string[]>>;
  /** Where the compressed forms of a body that is sent again are kept; absent: it is compressed for this answer only. */
  readonly compressed?: Map<ContentEncoding, Promise<Buffer>>;
};

export function jsonResponse(
  status: number,
  headers: Record<string, string | string[]>,
  value: unknown,
): TranscodingResponse {
  headers["content-type"] = "application/json";
  return { status, headers, body: JSON.stringify(value) };
}

/**
 * Of one connection (RFC 9110, section 7.6.1), of the body that is made here, or of another protocol:
 * never handed on. `__proto__` may be the name of a header, but not of an object's property.
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

/** Adds headers that an implementation set, as far as they may stand in an HTTP answer. */
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

/** Visible ASCII, blanks and tabs: what every recipient reads alike (RFC 9110, section 5.5). */
export function isHeaderValue(value: string): boolean {
  return /^[\t\x20-\x7e]*$/.test(value);
}
