import type { Socket } from "node:net";
import { shortBodyTimeoutMs } from "./exchange.ts";
import type { Http2Connection } from "./http2-connection.ts";
import { hasArrived, http2Errors, type Http2Exchange } from "./http2-exchange.ts";
import type { ListenerLimits, ListenerOptions } from "./listener-options.ts";
import { createThroughputMonitor, readSocketProgress, type ThroughputMonitor } from "./throughput.ts";

/** The part of `anonymousStallTimeoutMs` that applies while too many calls are in flight. */
const exhaustedShare = 1 / 5;

/** Checks one connection and its streams against the limits, and ends those that exceed one. */
export type CheckHttp2Connection = (socket: Socket, connection: Http2Connection, nowMs: number) => void;

export function createHttp2Limits(options: ListenerOptions): CheckHttp2Connection {
  const throughput = createThroughputMonitor(options);
  return (socket, connection, nowMs) => {
    const { session, accepted, exchanges } = connection;
    if (session.destroyed) {
      return;
    }
    const { sentBytes, unsentBytes } = readSocketProgress(accepted);
    const exceeded = exceededLimit(connection, nowMs, options);
    if (exceeded !== undefined) {
      destroySession(exceeded, socket, connection, options);
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
    let isResponseUnsent = unsentBytes > 0;
    // While TCP is congested, streams also wait for each other.
    const anonymousTimeoutMs =
      unsentBytes > 0 ? Number.POSITIVE_INFINITY : anonymousTimeout(connection, nowMs, options);
    for (const exchange of exchanges) {
      isResponseUnsent = checkExchange(exchange, nowMs, throughput, anonymousTimeoutMs, options) || isResponseUnsent;
    }
    if (!isResponseUnsent) {
      throughput.reset(connection.response, sentBytes, nowMs);
    } else if (throughput.isTooSlow(connection.response, sentBytes, nowMs)) {
      if (unsentBytes > 0) {
        destroySession("stallTimeoutMs", socket, connection, options);
        return;
      }
      // Only flow-control windows are exhausted; a proxy may share the connection between clients.
      for (const exchange of exchanges) {
        if (exchange.unsentBytes > 0 && nowMs - exchange.unsentMs >= options.stallTimeoutMs) {
          cancelStream(exchange, "stallTimeoutMs", options);
        }
      }
    }
  };
}

function exceededLimit(
  connection: Http2Connection,
  nowMs: number,
  options: ListenerOptions,
): keyof ListenerLimits | undefined {
  if (!connection.hasClientSettings && nowMs - connection.startMs > options.firstByteTimeoutMs) {
    return "firstByteTimeoutMs";
  }
  return isHeaderLate(connection, nowMs, options) ? "headersTimeoutMs" : undefined;
}

/**
 * An unfinished header block blocks the whole connection (RFC 9113, section 4.3), and Node emits no event for it: only
 * nghttp2 has its stream. A rejected header block looks the same until the next one arrives.
 */
function isHeaderLate(
  connection: Http2Connection,
  nowMs: number,
  { headersTimeoutMs }: Pick<ListenerLimits, "headersTimeoutMs">,
): boolean {
  const lastBegunId = connection.session.state.lastProcStreamID ?? 0;
  if (lastBegunId <= connection.lastStreamId) {
    connection.headerMs = undefined;
    return false;
  }
  connection.headerMs ??= nowMs;
  return nowMs - connection.headerMs > headersTimeoutMs;
}

/** Returns the time for which flow control may block responses to unauthenticated callers. */
function anonymousTimeout(
  { origin }: Http2Connection,
  nowMs: number,
  { anonymousStallTimeoutMs }: Pick<ListenerLimits, "anonymousStallTimeoutMs">,
): number {
  const isExhausted = nowMs - origin.table.exhaustedMs < anonymousStallTimeoutMs;
  return isExhausted ? anonymousStallTimeoutMs * exhaustedShare : anonymousStallTimeoutMs;
}

/** Returns whether the client has yet to take part of the response. */
function checkExchange(
  exchange: Http2Exchange,
  nowMs: number,
  throughput: ThroughputMonitor,
  anonymousTimeoutMs: number,
  options: ListenerOptions,
): boolean {
  const { stream } = exchange;
  // After the response has begun, the rate of the request body is not limited.
  const isArriving = !stream.endAfterHeaders && !stream.readableEnded && !stream.headersSent && !stream.destroyed;
  if (!isArriving || stream.readableLength > 0) {
    throughput.reset(exchange.requestBody, exchange.bodyBytes, nowMs);
  } else if (throughput.isTooSlow(exchange.requestBody, exchange.bodyBytes, nowMs) && !hasArrived(stream)) {
    cancelStream(exchange, "stallTimeoutMs", options);
    return false;
  }
  const timeoutMs = exchange.hasShortBody ? shortBodyTimeoutMs : options.requestTimeoutMs;
  if (isArriving && nowMs - exchange.startMs > timeoutMs && !hasArrived(stream)) {
    cancelStream(exchange, "requestTimeoutMs", options);
    return false;
  }
  const { writableLength } = stream;
  if (exchange.unsentBytes === 0 || writableLength < exchange.unsentBytes) {
    exchange.unsentMs = nowMs;
    exchange.unsentChecks = 0;
  } else if (
    !exchange.isAuthenticated &&
    nowMs - exchange.unsentMs > anonymousTimeoutMs &&
    // If the event loop was blocked, the client's pending input is read before the next check.
    ++exchange.unsentChecks > 1
  ) {
    cancelStream(exchange, "anonymousStallTimeoutMs", options);
    return false;
  } else if (nowMs - exchange.unsentMs > options.requestTimeoutMs) {
    // Bytes are moving fast enough not to stall, but a single chunk of the response takes too long.
    cancelStream(exchange, "requestTimeoutMs", options);
    return false;
  }
  exchange.unsentBytes = writableLength;
  return writableLength > 0;
}

function cancelStream(
  { stream }: Http2Exchange,
  limit: keyof ListenerLimits,
  { onLimit }: Pick<ListenerOptions, "onLimit">,
): void {
  // The reset itself may wait for TCP.
  if (!stream.closed) {
    onLimit(limit);
    stream.close(http2Errors.cancel);
  }
}

function destroySession(
  limit: keyof ListenerLimits,
  socket: Socket,
  { session }: Http2Connection,
  { onLimit }: Pick<ListenerOptions, "onLimit">,
): void {
  onLimit(limit);
  // Node sends the code only together with an error.
  session.destroy(new Error(`${limit} exceeded`), http2Errors.enhanceYourCalm);
  // Node would wait until everything is sent.
  setImmediate(() => socket.destroy());
}
