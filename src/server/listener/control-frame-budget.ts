/** The budget of a new connection, in seconds of its refill rate. */
const burstSeconds = 60;

/** Allowance for each body chunk or header block: HTTP/2 frame headers and TLS records. */
const framingBytes = 64;

/** Allowance for each header field: its lengths and indices. */
const fieldBytes = 8;

/** Allowance for the part of a body that was in transit when the service responded without reading it. */
const inTransitBytes = 64 * 1024;

/** Allowance for what a client sends while it receives: WINDOW_UPDATE and acknowledgements, per byte sent to it. */
const receiptRatio = 1 / 16;

export interface ControlFrameBudget {
  /** Counts a header block; `fields` are names and values in turn. */
  addHeader(fields: readonly string[]): void;
  /** Counts a chunk of a body. */
  addBody(bytes: number): void;
  /** Counts a call that ended before its body did. */
  addUnreadBody(): void;
  /** Whether the budget is exceeded. Both byte counts are totals of the connection. */
  isExhausted(receivedBytes: number, sentBytes: number, nowMs: number): boolean;
}

/**
 * Limits the bytes of a connection that belong to no call: a token bucket that holds up to `burstSeconds` of
 * `bytesPerSecond`. This covers every kind of HTTP/2 frame that costs work without carrying a message, since all
 * received bytes that headers and bodies do not account for are charged.
 */
export function createControlFrameBudget(
  bytesPerSecond: number,
  receivedBytes: number,
  nowMs: number,
): ControlFrameBudget {
  const maxBytes = bytesPerSecond * burstSeconds;
  let remainingBytes = maxBytes;
  let accountedBytes = 0;
  let previous = { receivedBytes, sentBytes: 0, nowMs };
  return {
    addHeader(fields) {
      accountedBytes += framingBytes;
      for (const text of fields) {
        accountedBytes += text.length + fieldBytes;
      }
    },
    addBody(bytes) {
      accountedBytes += bytes + framingBytes;
    },
    addUnreadBody() {
      accountedBytes += inTransitBytes;
    },
    isExhausted(receivedBytes, sentBytes, nowMs) {
      accountedBytes += (sentBytes - previous.sentBytes) * receiptRatio;
      // Negative if a body is read later than it was received.
      const overheadBytes = receivedBytes - previous.receivedBytes - accountedBytes;
      const refillBytes = ((nowMs - previous.nowMs) / 1_000) * bytesPerSecond;
      remainingBytes = Math.min(maxBytes, remainingBytes - overheadBytes + refillBytes);
      previous = { receivedBytes, sentBytes, nowMs };
      accountedBytes = 0;
      return remainingBytes < 0;
    },
  };
}
