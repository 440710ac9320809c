import type http from "node:http";
import type { AddressInfo, Server, Socket } from "node:net";
import { addressOf, listen } from "@flowgate/base/addresses";
import type { ExchangeHandler } from "./exchange.ts";
import { Http1 } from "./http1.ts";
import { Http2 } from "./http2.ts";
import { type AcceptedConnection, gracefulCloseMs } from "./connection.ts";
import { listenerDefaults, type ListenerOptions } from "./listener-options.ts";
import { canSendShutdownNotice } from "./http2-connection.ts";
import { createConnectionTable } from "./connection-table.ts";
import { canReadSocketProgress } from "./throughput.ts";
import type { DetectedConnection } from "./sniff.ts";

/** The longest delay of a Node timer. */
const maxTimerMs = 2 ** 31 - 1;

/** An HTTP server that can listen on several addresses. */
export type Listener = http.Server & {
  /** Listens, as `listen` in `@flowgate/base/addresses` does. Resolves to the address, which is 127.0.0.1 for `localhost`. */
  listenOn(host: string, port: number): Promise<AddressInfo>;
  connectionCount(): number;
};

/**
 * A server for HTTP/1.1 and HTTP/2 on one port. Its HTTP/1 server listens; after protocol detection, HTTP/2 connections
 * are passed to an HTTP/2 server with the same handler. Limits are enforced by a periodic check of all connections.
 *
 * close() takes no new calls and lets calls in flight finish; its callback is always called.
 */
export function createListener(handler: ExchangeHandler, partialOptions: Partial<ListenerOptions> = {}): Listener {
  const options = { ...listenerDefaults, ...partialOptions };
  const undetected = new Set<Socket>();
  const connections = createConnectionTable(options);
  const http1 = new Http1(handler, options);
  const http2 = new Http2(handler, options);
  const protocols = { http1, http2 };
  const { server } = http1;
  const attached: Server[] = [];

  server.on("connection", (socket: Socket) => {
    // Connection errors are handled through the close event.
    socket.on("error", () => {});
    connections.admit(socket, detect);
  });

  const detect = (connection: AcceptedConnection): void => {
    const { socket } = connection;
    undetected.add(socket);
    // Includes the TLS handshake.
    const timer = setTimeout(() => {
      // If the event loop was blocked, the client's pending input is read first.
      setImmediate(() => {
        if (undetected.has(socket)) {
          options.onLimit("firstByteTimeoutMs");
          socket.destroy();
        }
      });
    }, options.firstByteTimeoutMs);
    socket.once("close", () => {
      clearTimeout(timer);
      undetected.delete(socket);
    });
    options.detectProtocol(socket, (detected) => {
      clearTimeout(timer);
      undetected.delete(socket);
      serve(detected, connection);
    });
  };

  const serve = ({ socket, protocol, retireAtMs }: DetectedConnection, connection: AcceptedConnection): void => {
    if (retireAtMs !== undefined) {
      const remainingMs = Math.min(retireAtMs - Date.now(), maxTimerMs);
      const timer = setTimeout(() => protocols[protocol].retire(socket), remainingMs);
      connection.socket.once("close", () => clearTimeout(timer));
    }
    const { connectionAgeMs } = options;
    if (connectionAgeMs !== undefined) {
      // Randomized so that connections opened together do not close together.
      const ageMs = connectionAgeMs * (0.9 + 0.2 * Math.random());
      const timer = setTimeout(() => {
        options.onLimit("connectionAgeMs");
        protocols[protocol].retire(socket);
      }, ageMs);
      connection.socket.once("close", () => clearTimeout(timer));
    }
    protocols[protocol].serve(socket, connection);
  };

  const shortestMs = Math.min(
    options.idleTimeoutMs,
    options.stallTimeoutMs,
    options.anonymousStallTimeoutMs,
    options.requestTimeoutMs,
    options.headersTimeoutMs,
    options.firstByteTimeoutMs,
  );
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
    let unclosed = attached.length + 1;
    let failure: Error | undefined;
    const onClose = (error?: Error): void => {
      failure ??= error;
      unclosed -= 1;
      if (unclosed === 0) {
        clearTimeout(detectionTimer);
        clearTimeout(graceTimer);
        callback?.(failure);
      }
    };
    [{ close }, ...attached].forEach((each) => each.close(onClose));
    const destroyAll = (sockets: Iterable<Socket>): void => [...sockets].forEach((socket) => socket.destroy());
    // A client that has just connected may be about to send its request.
    const detectionTimer = setTimeout(() => destroyAll(undetected), gracefulCloseMs);
    void Promise.all([http1.close(), http2.close()]).then(options.onClientsNotified);
    const graceTimer = setTimeout(() => {
      options.onForcedClose(connections.open.size);
      destroyAll([...connections.open].map(({ socket }) => socket));
    }, options.closeGraceMs);
    return server;
  };
  return Object.assign(server, {
    async listenOn(host: string, port: number) {
      const other = await listen(server, host, port);
      if (other !== undefined) {
        // Closes together with the listener.
        other.on("connection", (socket) => server.emit("connection", socket));
        attached.push(other);
      }
      return addressOf(server);
    },
    connectionCount: () => connections.open.size,
  });
}
