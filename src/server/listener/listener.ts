import type http from "node:http";
import type { Socket } from "node:net";
import type { ExchangeHandler } from "./exchange.ts";
import { createHttp1 } from "./http1.ts";
import { createHttp2 } from "./http2.ts";
import { gracefulCloseMs } from "./graceful-close.ts";
import { listenerDefaults, type ListenerOptions } from "./options.ts";
import { canSendShutdownNotice } from "./shutdown-notice.ts";
import { createClientCounter } from "./client-counter.ts";
import { canReadSocketProgress } from "./socket-progress.ts";
import type { DetectedConnection } from "./sniff.ts";

/** Node's timers wait no longer. */
const maxTimerMs = 2 ** 31 - 1;

/**
 * A server for HTTP/1.1 and HTTP/2 on one port. It is an HTTP/1 server that owns the port, has each connection's
 * protocol decided, and passes HTTP/2 on to a sibling that shares its handler. All connections are looked at
 * in turn: those that are beyond a limit are ended.
 *
 * close() takes no new work and lets calls in flight finish; its callback always comes.
 */
export function createListener(handler: ExchangeHandler, given: Partial<ListenerOptions> = {}): http.Server {
  const options = { ...listenerDefaults, ...given };
  const accepted = new Set<Socket>();
  const undecided = new Set<Socket>();
  const sources = createClientCounter(options.connectionsPerSource, options.isProxy);
  const http1 = createHttp1(handler, options);
  const http2 = createHttp2(handler, options);
  const protocols = { http1, http2 };
  const { server } = http1;

  server.on("connection", (socket: Socket) => {
    if (accepted.size >= options.connections) {
      options.onLimit("connections");
      socket.resetAndDestroy();
      return;
    }
    const leave = sources.admit(socket.remoteAddress);
    if (leave === undefined) {
      options.onLimit("connectionsPerSource");
      socket.resetAndDestroy();
      return;
    }
    accepted.add(socket);
    undecided.add(socket);
    // All of it counts, a TLS handshake too.
    const timer = setTimeout(() => {
      options.onLimit("firstByteTimeoutMs");
      socket.destroy();
    }, options.firstByteTimeoutMs);
    socket.once("close", () => {
      clearTimeout(timer);
      accepted.delete(socket);
      undecided.delete(socket);
      leave();
    });
    // A connection may break at any time; whoever uses it learns that from its end.
    socket.on("error", () => {});
    options.decide(socket, (connection) => {
      clearTimeout(timer);
      undecided.delete(socket);
      serve(connection, socket);
    });
  });

  const serve = ({ socket, protocol, goodUntilMs }: DetectedConnection, beneath: Socket): void => {
    if (goodUntilMs !== undefined) {
      const leftMs = Math.min(goodUntilMs - Date.now(), maxTimerMs);
      const timer = setTimeout(() => protocols[protocol].retire(socket), leftMs);
      beneath.once("close", () => clearTimeout(timer));
    }
    const { connectionAgeMs } = options;
    if (connectionAgeMs !== undefined) {
      // Connections that were made together do not end together.
      const ageMs = connectionAgeMs * (0.9 + 0.2 * Math.random());
      const timer = setTimeout(() => {
        options.onLimit("connectionAgeMs");
        protocols[protocol].retire(socket);
      }, ageMs);
      beneath.once("close", () => clearTimeout(timer));
    }
    protocols[protocol].serve(socket, beneath);
  };

  const { idleTimeoutMs, stallTimeoutMs, requestTimeoutMs, headersTimeoutMs, firstByteTimeoutMs } = options;
  const shortestMs = Math.min(idleTimeoutMs, stallTimeoutMs, requestTimeoutMs, headersTimeoutMs, firstByteTimeoutMs);
  server.once("listening", () => {
    if (!canReadSocketProgress(server)) {
      options.onDegraded(
        "responses that their clients do not take are not ended: this Node does not say what was sent",
      );
    }
    if (!canSendShutdownNotice(server)) {
      options.onDegraded("HTTP/2 connections end without a notice in advance: this Node hides their descriptors");
    }
    const timer = setInterval(
      () => {
        const nowMs = performance.now();
        http1.sweep(nowMs);
        http2.sweep(nowMs);
      },
      Math.min(1_000, shortestMs / 4),
    );
    server.once("close", () => clearInterval(timer));
  });

  const close = server.close.bind(server);
  server.close = (callback) => {
    close(callback);
    const end = (sockets: ReadonlySet<Socket>): void => sockets.forEach((socket) => socket.destroy());
    // Whoever came just before may be about to send its request.
    const patience = setTimeout(() => end(undecided), gracefulCloseMs);
    void Promise.all([http1.close(), http2.close()]).then(options.onTold);
    const grace = setTimeout(() => {
      options.onCut(accepted.size);
      end(accepted);
    }, options.closeGraceMs);
    server.once("close", () => {
      clearTimeout(patience);
      clearTimeout(grace);
    });
    return server;
  };
  return server;
}
