/** For how long's worth of overhead a connection may send at once. */
const burstSeconds = 60;

/** Of the frames that a body comes in, and of TLS records. */
const framingBytes = 64;

/** Of a header field's lengths and indices. */
const fieldBytes = 8;

/** What may have been on its way of a body that was answered without being read. */
const onItsWayBytes = 64 * 1024;

/** Of what a client sends to take an answer: WINDOW_UPDATEs, acknowledgements. */
const takingShare = 1 / 16;

export interface ControlFrameBudget {
  /** A header came, as names and values in turn. */
  header(fields: readonly string[]): void;
  /** A piece of a body came. */
  body(bytes: number): void;
  /** A call ended before its body did. */
  unread(): void;
  /** Whether more came than the budget has; both are the bytes of the whole connection so far. */
  isSpent(receivedBytes: number, sentBytes: number, nowMs: number): boolean;
}

/**
 * A budget for what a connection sends besides calls. Whatever frames HTTP/2 has that cost work and carry
 * nothing: they are counted here by the bytes that no call explains.
 */
export function createControlFrameBudget(
  bytesPerSecond: number,
  receivedBytes: number,
  nowMs: number,
): ControlFrameBudget {
  const most = bytesPerSecond * burstSeconds;
  let left = most;
  let explained = 0;
  let seen = { receivedBytes, sentBytes: 0, nowMs };
  return {
    header(fields) {
      explained += framingBytes;
      for (const text of fields) {
        explained += text.length + fieldBytes;
      }
    },
    body(bytes) {
      explained += bytes + framingBytes;
    },
    unread() {
      explained += onItsWayBytes;
    },
    isSpent(receivedBytes, sentBytes, nowMs) {
      explained += (sentBytes - seen.sentBytes) * takingShare;
      const overhead = receivedBytes - seen.receivedBytes - explained;
      // Less than nothing where a body is read later than it came.
      left = Math.min(most, left - overhead + ((nowMs - seen.nowMs) / 1_000) * bytesPerSecond);
      seen = { receivedBytes, sentBytes, nowMs };
      explained = 0;
      return left < 0;
    },
  };
}
