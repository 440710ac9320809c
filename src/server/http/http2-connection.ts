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
  readonly response: ThroughputWindow;
  /** True if the client has sent its initial SETTINGS (RFC 9113, section 3.4). */
  hasClientSettings: boolean;
  lastStreamId: number;
  /** The time of the last call. */
  busyMs: number;
  /** The start of the header block that is arriving; undefined if there is none. */
  headerMs: number | undefined;
  /** Resolves when the client has been notified of the end; undefined: `retireConnection` was not called. */
  retired: Promise<void> | undefined;
};

export function createHttp2Connection(
  session: http2.ServerHttp2Session,
  socket: Socket,
  origin: AcceptedConnection,
): Http2Connection {
  const { socket: accepted } = origin;
  const nowMs = performance.now();
  const connection: Http2Connection = {
    session,
    socket,
    accepted,
    origin,
    isSecure: socket !== accepted,
    startMs: nowMs,
    exchanges: new Set(),
    response: { startMs: nowMs, bytes: 0 },
    hasClientSettings: false,
    lastStreamId: 0,
    busyMs: nowMs,
    headerMs: undefined,
    retired: undefined,
    closed(exchange) {
      connection.exchanges.delete(exchange);
      origin.table.becameIdle(origin);
      connection.busyMs = performance.now();
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

/** True if this Node version exposes file descriptors. Without them, clients get one GOAWAY instead of two. */
export function canSendShutdownNotice(listening: Server): boolean {
  return process.platform === "win32" || descriptorOf(listening) >= 0;
}

function descriptorOf(connection: Socket | Server): number {
  const { _handle: handle } = connection as { readonly _handle?: { readonly fd?: unknown } | null };
  return typeof handle?.fd === "number" ? handle.fd : -1;
}
