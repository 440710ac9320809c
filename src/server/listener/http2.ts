import http2 from "node:http2";
import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { ExchangeHandler } from "./exchange.ts";
import { expectationError } from "./expectation.ts";
import { hasArrived, Http2Exchange, type Http2Exchanges } from "./http2-exchange.ts";
import { gracefulCloseMs } from "./graceful-close.ts";
import type { ListenerLimits, ListenerOptions } from "./options.ts";
import { createControlFrameBudget, type ControlFrameBudget } from "./control-frame-budget.ts";
import { createThroughputMonitor, type ThroughputWindow } from "./throughput.ts";
import type { Protocol } from "./protocol.ts";
import { errorResponse } from "../error-response.ts";
import { sendShutdownNotice } from "./shutdown-notice.ts";
import { readSocketProgress } from "./socket-progress.ts";

const { NGHTTP2_CANCEL, NGHTTP2_ENHANCE_YOUR_CALM } = http2.constants;

/** Before the next look whether a connection has sent what it had to. */
const unsentPauseMs = 5;

type Connection = Http2Exchanges & {
  readonly session: http2.ServerHttp2Session;
  /** The one that was accepted, under TLS. */
  readonly accepted: Socket;
  readonly isSecure: boolean;
  readonly startMs: number;
  readonly exchanges: Set<Http2Exchange>;
  readonly overhead: ControlFrameBudget;
  readonly answer: ThroughputWindow;
  /** Whether the client has sent the SETTINGS that its side begins with (RFC 9113, section 3.4). */
  isIntroduced: boolean;
  lastStreamId: number;
  /** When there was last a call. */
  busyMs: number;
  /** Since when a header has been arriving; undefined: none is. */
  headerMs: number | undefined;
  /** Resolves when its client knows that it ends; undefined: no one wants that yet. */
  told: Promise<void> | undefined;
};

/** HTTP/2, on connections whose first bytes were its preface. */
export function createHttp2(handler: ExchangeHandler, options: ListenerOptions): Protocol {
  const connections = new Map<Socket, Connection>();
  const pace = createThroughputMonitor(options);
  let isClosing = false;

  const server = http2.createServer({
    settings: {
      maxConcurrentStreams: options.callsPerConnection,
      maxHeaderListSize: options.headerBytes,
      initialWindowSize: 256 * 1024,
    },
    // Enforced also before the client has seen the setting.
    maxHeaderListPairs: options.headerFields,
    // In MB. Node's default of 10 ends a session that carries some thousands of streams.
    maxSessionMemory: 100,
    // The client's resets. Those that it makes the server send are few as well: most faults of a stream end the
    // session, and the others count as invalid frames.
    streamResetRate: options.resetsPerSecond,
    streamResetBurst: 10 * options.resetsPerSecond,
    maxSessionInvalidFrames: options.invalidFrames,
    // Of streams that were opened beyond maxConcurrentStreams.
    maxSessionRejectedStreams: 100,
    maxSettings: 32,
  });
  function watch(session: http2.ServerHttp2Session, socket: Socket, accepted: Socket): void {
    const nowMs = performance.now();
    const overhead = createControlFrameBudget(options.overheadBytesPerSecond, accepted.bytesRead, nowMs);
    const connection: Connection = {
      session,
      socket,
      accepted,
      remoteAddress: accepted.remoteAddress ?? "",
      isSecure: socket !== accepted,
      startMs: nowMs,
      exchanges: new Set(),
      overhead,
      answer: { startMs: nowMs, bytes: 0 },
      isIntroduced: false,
      lastStreamId: 0,
      busyMs: nowMs,
      headerMs: undefined,
      told: undefined,
      received: (bytes) => overhead.body(bytes),
      closed(exchange) {
        connection.exchanges.delete(exchange);
        connection.busyMs = performance.now();
        if (exchange.hasBody() && !exchange.stream.readableEnded) {
          overhead.unread();
        }
      },
    };
    connections.set(socket, connection);
    socket.once("close", () => connections.delete(socket));
    session.once("close", () => {
      // The other side may have read GOAWAY, and stay.
      const timer = setTimeout(() => socket.destroy(), gracefulCloseMs);
      socket.once("close", () => clearTimeout(timer));
    });
    session.once("remoteSettings", () => {
      connection.isIntroduced = true;
    });
    session.on("stream", (stream, headers, _flags, rawHeaders) => serve(connection, stream, headers, rawHeaders));
    session.setLocalWindowSize(1024 * 1024);
    if (isClosing) {
      void retire(connection);
    }
  }

  function serve(
    connection: Connection,
    stream: http2.ServerHttp2Stream,
    headers: http2.IncomingHttpHeaders,
    rawHeaders: readonly string[],
  ): void {
    const exchange = new Http2Exchange(stream, headers, rawHeaders, connection);
    connection.lastStreamId = stream.id ?? connection.lastStreamId;
    connection.exchanges.add(exchange);
    connection.overhead.header(rawHeaders);
    handler(exchange, exchange.method === "CONNECT" ? noTunnel() : expectationError(exchange.headers));
  }

  function sweepOne(socket: Socket, connection: Connection, nowMs: number): void {
    const { session, accepted, exchanges, overhead } = connection;
    if (session.destroyed) {
      return;
    }
    const { sentBytes, unsentBytes } = readSocketProgress(accepted);
    const end = (limit: keyof ListenerLimits): void => {
      options.onLimit(limit);
      // Without an error, Node takes no code.
      session.destroy(new Error(`beyond ${limit}`), NGHTTP2_ENHANCE_YOUR_CALM);
      // Node would wait until everything is sent.
      setImmediate(() => socket.destroy());
    };

    let unreadBytes = 0;
    for (const { stream } of exchanges) {
      unreadBytes += stream.readableLength;
    }
    if (overhead.isSpent(accepted.bytesRead - unreadBytes, sentBytes, nowMs)) {
      end("overheadBytesPerSecond");
      return;
    }
    if (!connection.isIntroduced && nowMs - connection.startMs > options.firstByteTimeoutMs) {
      end("firstByteTimeoutMs");
      return;
    }
    if (isHeaderLate(connection, nowMs)) {
      end("headersTimeoutMs");
      return;
    }
    // Other frames, such as PING, do not make a connection busy.
    if (exchanges.size > 0) {
      connection.busyMs = nowMs;
    } else if (nowMs - connection.busyMs > options.idleTimeoutMs && !session.closed) {
      options.onLimit("idleTimeoutMs");
      session.close();
      return;
    }
    let isWaiting = unsentBytes > 0;
    for (const exchange of exchanges) {
      isWaiting = sweepExchange(exchange, nowMs) || isWaiting;
    }
    if (!isWaiting) {
      pace.rest(connection.answer, sentBytes, nowMs);
    } else if (pace.isTooSlow(connection.answer, sentBytes, nowMs)) {
      if (unsentBytes > 0) {
        end("stallTimeoutMs");
        return;
      }
      // The windows are shut, not the connection: others may share it through a proxy.
      for (const exchange of exchanges) {
        if (exchange.unsentBytes > 0 && nowMs - exchange.unsentMs >= options.stallTimeoutMs) {
          abandon(exchange, "stallTimeoutMs");
        }
      }
    }
  }

  /** Returns whether its response waits for the client. */
  function sweepExchange(exchange: Http2Exchange, nowMs: number): boolean {
    const { stream } = exchange;
    // Once an answer has begun, the two may talk at any pace.
    const isArriving = !stream.endAfterHeaders && !stream.readableEnded && !stream.headersSent && !stream.destroyed;
    if (!isArriving || stream.readableLength > 0) {
      pace.rest(exchange.body, exchange.bodyBytes, nowMs);
    } else if (pace.isTooSlow(exchange.body, exchange.bodyBytes, nowMs) && !hasArrived(stream)) {
      abandon(exchange, "stallTimeoutMs");
      return false;
    }
    if (isArriving && nowMs - exchange.startMs > options.requestTimeoutMs && !hasArrived(stream)) {
      abandon(exchange, "requestTimeoutMs");
      return false;
    }
    const { writableLength } = stream;
    if (writableLength === 0 || writableLength < exchange.unsentBytes) {
      exchange.unsentMs = nowMs;
    } else if (nowMs - exchange.unsentMs > options.requestTimeoutMs) {
      // Slower than this, but not so slow as to stall, a single piece of an answer may not be taken.
      abandon(exchange, "requestTimeoutMs");
      return false;
    }
    exchange.unsentBytes = writableLength;
    return writableLength > 0;
  }

  function abandon({ stream }: Http2Exchange, limit: keyof ListenerLimits): void {
    options.onLimit(limit);
    stream.close(NGHTTP2_CANCEL);
  }

  /**
   * A header block that does not end holds up the whole connection (RFC 9113, section 4.3), and no one is told
   * of it: its stream is known to nghttp2 alone. One that was refused looks the same until the next comes.
   */
  function isHeaderLate(connection: Connection, nowMs: number): boolean {
    const begun = connection.session.state.lastProcStreamID ?? 0;
    if (begun <= connection.lastStreamId) {
      connection.headerMs = undefined;
      return false;
    }
    connection.headerMs ??= nowMs;
    return nowMs - connection.headerMs > options.headersTimeoutMs;
  }

  function retire(connection: Connection): Promise<void> {
    // A session that breaks meanwhile needs no notice any more.
    connection.told ??= tell(connection).catch(() => {});
    return connection.told;
  }

  return {
    serve(socket, accepted) {
      const begin = (session: http2.ServerHttp2Session): void => watch(session, socket, accepted);
      server.once("session", begin);
      server.emit("connection", socket);
      server.off("session", begin);
    },
    retire(socket) {
      const connection = connections.get(socket);
      if (connection !== undefined) {
        void retire(connection);
      }
    },
    sweep(nowMs) {
      for (const [socket, connection] of connections) {
        sweepOne(socket, connection, nowMs);
      }
    },
    async close() {
      isClosing = true;
      await Promise.all([...connections.values()].map(retire));
    },
  };
}

/**
 * RFC 9113, section 6.8: the client learns that the connection will end and then, when it opens no more streams, which
 * of them were taken. Over TLS the latter alone: streams that are on their way were not, and may be repeated.
 */
async function tell({ session, accepted, isSecure }: Connection): Promise<void> {
  const untilMs = performance.now() + (isSecure ? 0 : gracefulCloseMs);
  while (!session.closed && !session.destroyed && performance.now() < untilMs) {
    // Not before our SETTINGS, which come first (section 3.4).
    if (!session.pendingSettingsAck && sendShutdownNotice(accepted)) {
      await roundTrip(session, untilMs - performance.now());
      break;
    }
    await delay(unsentPauseMs);
  }
  if (!session.closed && !session.destroyed) {
    session.close();
  }
}

/** Resolves when the client has read all that it was sent so far, or has gone; at the latest in so long. */
function roundTrip(session: http2.Http2Session, atMostMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, atMostMs);
    session.ping(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}

const noTunnel = () => errorResponse(405, "this server opens no tunnels");
