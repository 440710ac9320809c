/** What a call is answered over HTTP; without a body where `body` is undefined. */
export type Answer = {
  readonly status: number;
  /** By lower-case name. */
  readonly headers: Record<string, string | string[]>;
  /** Text goes out in one piece with the head; bytes are for what is large and sent again and again. */
  readonly body: string | Buffer | undefined;
};

export function jsonAnswer(status: number, headers: Record<string, string | string[]>, value: unknown): Answer {
  headers["content-type"] = "application/json";
  return { status, headers, body: JSON.stringify(value) };
}

/** Of one connection (RFC 9110, section 7.6.1) or of another protocol: never handed on. */
const notForwarded = new Set([
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
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
    if (!notForwarded.has(name) && !name.startsWith("grpc-") && !name.startsWith("connect-")) {
      const before = target[name];
      target[name] = before === undefined ? value : [...(Array.isArray(before) ? before : [before]), value];
    }
  }
}
