import { writeSync } from "node:fs";
import type http2 from "node:http2";
import type { Server, Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { type AcceptedConnection, gracefulCloseMs } from "./connection.ts";
import type { Http2ConnectionContext, Http2Exchange } from "./http2-exchange.ts";
import { readSocketProgress, type ThroughputWindow } from "./throughput.ts";

/** Interval between attempts to write the shutdown notice while earlier frames are still queued. */
const noticeRetryMs = 5;

export type Http2Connection = Http2ConnectionContext & {
  readonly session: http2.ServerHttp2Session;
  /** The accepted TCP socket; differs from `socket` with TLS. */
  readonly accepted: Socket;
  readonly isSecure: boolean;
  readonly startMs: number;
  readonly exchanges: Set<Http2Exchange>;
  readonly controlFrames: ControlFrameBudget;
  readonly response: ThroughputWindow;
  /** Whether the client has sent its initial SETTINGS (RFC 9113, section 3.4). */
  hasClientSettings: boolean;
  lastStreamId: number;
  /** When there was last a call. */
  busyMs: number;
  /** When the header block that is arriving began; undefined: none is arriving. */
  headerMs: number | undefined;
  /** Resolves when the client has been notified of the end; undefined: `retireConnection` was not called. */
  retired: Promise<void> | undefined;
};

export function createHttp2Connection(
  session: http2.ServerHttp2Session,
  socket: Socket,
  origin: AcceptedConnection,
  controlBytesPerSecond: number,
): Http2Connection {
  const { socket: accepted } = origin;
  const nowMs = performance.now();
  const controlFrames = new ControlFrameBudget(controlBytesPerSecond, accepted.bytesRead, nowMs);
  const connection: Http2Connection = {
    session,
    socket,
    accepted,
    origin,
    isSecure: socket !== accepted,
    startMs: nowMs,
    exchanges: new Set(),
    controlFrames,
    response: { startMs: nowMs, bytes: 0 },
    hasClientSettings: false,
    lastStreamId: 0,
    busyMs: nowMs,
    headerMs: undefined,
    retired: undefined,
    received: (bytes) => controlFrames.addBody(bytes),
    closed(exchange) {
      connection.exchanges.delete(exchange);
      origin.table.becameIdle(origin);
      connection.busyMs = performance.now();
      if (exchange.hasBody() && !exchange.stream.readableEnded) {
        controlFrames.addUnreadBody();
      }
    },
  };
  origin.calls = connection.exchanges;
  origin.evict = () => {
    // Sends GOAWAY, after which clients reconnect for their next call.
    session.destroy();
    setImmediate(() => socket.destroy());
  };
  return connection;
}

/** Makes a connection take no new calls. Resolves when its client has been notified, or after `gracefulCloseMs`. */
export function retireConnection(connection: Http2Connection): Promise<void> {
  // A session that breaks in the meantime needs no notice.
  connection.retired ??= closeSession(connection).catch(() => {});
  return connection.retired;
}

/**
 * RFC 9113, section 6.8: sends two GOAWAY frames. The first one announces the shutdown; the second one, after the
 * client has stopped opening streams, names the last stream that was processed. Over TLS only the second one is sent:
 * streams in transit are not processed, and the client may retry them.
 */
async function closeSession({ session, accepted, isSecure }: Http2Connection): Promise<void> {
  const untilMs = performance.now() + (isSecure ? 0 : gracefulCloseMs);
  while (!session.closed && !session.destroyed && performance.now() < untilMs) {
    // The server's SETTINGS must be the first frame (RFC 9113, section 3.4).
    if (!session.pendingSettingsAck && sendShutdownNotice(accepted)) {
      await waitForRoundTrip(session, untilMs - performance.now());
      break;
    }
    await delay(noticeRetryMs);
  }
  if (!session.closed && !session.destroyed) {
    session.close();
  }
}

/** Resolves when the client has read everything sent so far, when the session closes, or after `timeoutMs`. */
function waitForRoundTrip(session: http2.Http2Session, timeoutMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, timeoutMs);
    session.ping(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** A GOAWAY frame (RFC 9113, section 6.8) with the highest possible stream id and NO_ERROR. */
const frame = Buffer.from([0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);

/**
 * Announces to an HTTP/2 client that its connection will close; streams that it opens until then are still served.
 * Returns false if the notice was not sent: other bytes are queued, or the platform exposes no file descriptors.
 *
 * After `session.goaway()` Node drops new streams silently, whatever last stream id it is given, and Node does not
 * expose nghttp2_submit_shutdown_notice. The frame is therefore written directly to the socket. A session writes whole
 * frames, so an empty queue means that the previous frame is complete. Must not be used with TLS.
 */
function sendShutdownNotice(socket: Socket): boolean {
  const fd = descriptorOf(socket);
  if (fd < 0 || readSocketProgress(socket).unsentBytes > 0) {
    return false;
  }
  try {
    if (writeSync(fd, frame) < frame.length) {
      // The rest of a partially written frame could not be sent in order.
      socket.destroy();
    }
    return true;
  } catch {
    // The send buffer is full, or the connection is broken; its users handle the latter.
    return false;
  }
}

/** Whether this Node version exposes file descriptors. Without them, clients get one GOAWAY instead of two. */
export function canSendShutdownNotice(listening: Server): boolean {
  return process.platform === "win32" || descriptorOf(listening) >= 0;
}

function descriptorOf(connection: Socket | Server): number {
  const { _handle: handle } = connection as { readonly _handle?: { readonly fd?: unknown } | null };
  return typeof handle?.fd === "number" ? handle.fd : -1;
}

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

/**
 * Limits the bytes of a connection that belong to no call: a token bucket that holds up to `burstSeconds` of
 * `bytesPerSecond`. This covers every kind of HTTP/2 frame that costs work without carrying a message, since all
 * received bytes that headers and bodies do not account for are charged.
 */
class ControlFrameBudget {
  readonly #bytesPerSecond: number;
  readonly #maxBytes: number;
  #remainingBytes: number;
  #accountedBytes = 0;
  #previous: { readonly receivedBytes: number; readonly sentBytes: number; readonly nowMs: number };

  constructor(bytesPerSecond: number, receivedBytes: number, nowMs: number) {
    this.#bytesPerSecond = bytesPerSecond;
    this.#maxBytes = bytesPerSecond * burstSeconds;
    this.#remainingBytes = this.#maxBytes;
    this.#previous = { receivedBytes, sentBytes: 0, nowMs };
  }

  /** Counts a header block; `fields` are names and values in turn. */
  addHeader(fields: readonly string[]): void {
    this.#accountedBytes += framingBytes;
    for (const text of fields) {
      this.#accountedBytes += text.length + fieldBytes;
    }
  }

  /** Counts a chunk of a body. */
  addBody(bytes: number): void {
    this.#accountedBytes += bytes + framingBytes;
  }

  /** Counts a call that ended before its body did. */
  addUnreadBody(): void {
    this.#accountedBytes += inTransitBytes;
  }

  /** Whether the budget is exceeded. Both byte counts are totals of the connection. */
  isExhausted(receivedBytes: number, sentBytes: number, nowMs: number): boolean {
    const previous = this.#previous;
    this.#accountedBytes += (sentBytes - previous.sentBytes) * receiptRatio;
    // Negative if a body is read later than it was received.
    const overheadBytes = receivedBytes - previous.receivedBytes - this.#accountedBytes;
    const refillBytes = ((nowMs - previous.nowMs) / 1_000) * this.#bytesPerSecond;
    this.#remainingBytes = Math.min(this.#maxBytes, this.#remainingBytes - overheadBytes + refillBytes);
    this.#previous = { receivedBytes, sentBytes, nowMs };
    this.#accountedBytes = 0;
    return this.#remainingBytes < 0;
  }
}
