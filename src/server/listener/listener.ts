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

/** The longest delay of a Node timer. */
const maxTimerMs = 2 ** 31 - 1;

/**
 * A server for HTTP/1.1 and HTTP/2 on one port. Its HTTP/1 server listens; after protocol detection, HTTP/2 connections
 * are passed to an HTTP/2 server with the same handler. Limits are enforced by a periodic check of all connections.
 *
 * close() takes no new calls and lets calls in flight finish; its callback is always called.
 */
export function createListener(handler: ExchangeHandler, partialOptions: Partial<ListenerOptions> = {}): http.Server {
  const options = { ...listenerDefaults, ...partialOptions };
  const accepted = new Set<Socket>();
  const undetected = new Set<Socket>();
  const clients = createClientCounter(options.connectionsPerSource, options.isProxy);
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
    const release = clients.admit(socket.remoteAddress);
    if (release === undefined) {
      options.onLimit("connectionsPerSource");
      socket.resetAndDestroy();
      return;
    }
    accepted.add(socket);
    undetected.add(socket);
    // Includes the TLS handshake.
    const timer = setTimeout(() => {
      options.onLimit("firstByteTimeoutMs");
      socket.destroy();
    }, options.firstByteTimeoutMs);
    socket.once("close", () => {
      clearTimeout(timer);
      accepted.delete(socket);
      undetected.delete(socket);
      release();
    });
    // Connection errors are handled through the close event.
    socket.on("error", () => {});
    options.detectProtocol(socket, (connection) => {
      clearTimeout(timer);
      undetected.delete(socket);
      serve(connection, socket);
    });
  });

  const serve = ({ socket, protocol, retireAtMs }: DetectedConnection, accepted: Socket): void => {
    if (retireAtMs !== undefined) {
      const remainingMs = Math.min(retireAtMs - Date.now(), maxTimerMs);
      const timer = setTimeout(() => protocols[protocol].retire(socket), remainingMs);
      accepted.once("close", () => clearTimeout(timer));
    }
    const { connectionAgeMs } = options;
    if (connectionAgeMs !== undefined) {
      // Randomized so that connections opened together do not close together.
      const ageMs = connectionAgeMs * (0.9 + 0.2 * Math.random());
      const timer = setTimeout(() => {
        options.onLimit("connectionAgeMs");
        protocols[protocol].retire(socket);
      }, ageMs);
      accepted.once("close", () => clearTimeout(timer));
    }
    protocols[protocol].serve(socket, accepted);
  };

  const { idleTimeoutMs, stallTimeoutMs, requestTimeoutMs, headersTimeoutMs, firstByteTimeoutMs } = options;
  const shortestMs = Math.min(idleTimeoutMs, stallTimeoutMs, requestTimeoutMs, headersTimeoutMs, firstByteTimeoutMs);
  server.once("listening", () => {
    if (!canReadSocketProgress(server)) {
      options.onDegraded(
        "stalled responses are not detected: this version of Node does not expose how many bytes were sent",
      );
    }
    if (!canSendShutdownNotice(server)) {
      options.onDegraded(
        "HTTP/2 connections close without advance notice: this version of Node does not expose their descriptors",
      );
    }
    const timer = setInterval(
      () => {
        const nowMs = performance.now();
        http1.enforceLimits(nowMs);
        http2.enforceLimits(nowMs);
      },
      Math.min(1_000, shortestMs / 4),
    );
    server.once("close", () => clearInterval(timer));
  });

  const close = server.close.bind(server);
  server.close = (callback) => {
    close(callback);
    const destroyAll = (sockets: ReadonlySet<Socket>): void => sockets.forEach((socket) => socket.destroy());
    // A client that has just connected may be about to send its request.
    const detectionTimer = setTimeout(() => destroyAll(undetected), gracefulCloseMs);
    void Promise.all([http1.close(), http2.close()]).then(options.onClientsNotified);
    const graceTimer = setTimeout(() => {
      options.onForcedClose(accepted.size);
      destroyAll(accepted);
    }, options.closeGraceMs);
    server.once("close", () => {
      clearTimeout(detectionTimer);
      clearTimeout(graceTimer);
    });
    return server;
  };
  return server;
}
