import { type IncomingMessage, type Server, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { WebSocketServer } from "ws";
import type { Host } from "../host.ts";
import { CommsSession, type SessionOptions, maxMessageBytes } from "./session.ts";

type CommsOptions = SessionOptions & { readonly host: Pick<Host, "admitSocket"> };

/** All clients together, and those of one source that have not authenticated. */
const maxSessions = 500;
const maxUnknown = 50;

/** How long a client may take to close its side. */
const closeMs = 1_000;

/**
 * Serves the websocket of Node-RED's editor, `/comms`, on the port of an HTTP server. Its connections are not subject to the timeouts of that
 * server any more. Disposing closes them.
 */
export function serveComms(server: Server, options: CommsOptions): AsyncDisposable {
  const sockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: maxMessageBytes,
    perMessageDeflate: false,
  });
  const sessions = new Map<CommsSession, Promise<void>>();
  const hasTooManyUnknown = (source: string): boolean => {
    const unknown = sessions.keys().filter((each) => !each.isAuthenticated && each.source === source);
    return unknown.drop(maxUnknown - 1).some(() => true);
  };

  const upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    socket.on("error", () => socket.destroy());
    const [path] = (request.url ?? "").split("?", 1);
    const client = path === "/comms" ? options.host.admitSocket(request) : 404;
    if (typeof client === "number" || sessions.size >= maxSessions || hasTooManyUnknown(client.source)) {
      refuse(socket, typeof client === "number" ? client : 503);
      return;
    }
    request.socket.setTimeout(0);
    sockets.handleUpgrade(request, socket, head, (opened) => {
      const session = new CommsSession(opened, client, options);
      const { promise, resolve } = Promise.withResolvers<void>();
      sessions.set(session, promise);
      opened.once("close", () => {
        sessions.delete(session);
        resolve();
      });
    });
  };
  server.on("upgrade", upgrade);

  return {
    async [Symbol.asyncDispose]() {
      server.off("upgrade", upgrade);
      server.on("upgrade", (_request, socket: Duplex) => refuse(socket, 503));
      const closed = [...sessions].map(([session, end]) => {
        session.close();
        return end;
      });
      await Promise.race([Promise.all(closed), new Promise((resolve) => setTimeout(resolve, closeMs).unref())]);
      [...sessions.keys()].forEach((session) => session.terminate());
      sockets.close();
    },
  };
}

function refuse(socket: Duplex, status: number): void {
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`, () =>
    socket.destroy(),
  );
}
