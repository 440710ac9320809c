import type http2 from "node:http2";
import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { AcceptedConnection } from "./accepted-connection.ts";
import { type ControlFrameBudget, createControlFrameBudget } from "./control-frame-budget.ts";
import { gracefulCloseMs } from "./graceful-close.ts";
import type { Http2ConnectionContext, Http2Exchange } from "./http2-exchange.ts";
import { sendShutdownNotice } from "./shutdown-notice.ts";
import type { ThroughputWindow } from "./throughput.ts";

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
  const controlFrames = createControlFrameBudget(controlBytesPerSecond, accepted.bytesRead, nowMs);
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
