import { type IncomingMessage, type Server, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { WebSocketServer } from "ws";
import { clientKeyOf } from "../../../../src/auth/caller.ts";
import type { RevisionUrl } from "./messages.ts";
import { type Client, CommsSession, type SessionOptions, maxMessageBytes } from "./session.ts";

export type CommsOptions = Omit<SessionOptions, "revisionUrl"> & {
  /** Where the client of a request finds revisions. Absent: nowhere. */
  readonly revisionUrlOf?: ((request: IncomingMessage) => RevisionUrl | undefined) | undefined;
  /** Why an upgrade is refused, as a status; undefined: it is not. Checks Host and Origin. */
  readonly refusalOf: (request: IncomingMessage) => number | undefined;
  readonly clientOf: (request: IncomingMessage) => Client;
};

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
  const hasTooManyUnknown = ({ socket: { remoteAddress = "" } }: IncomingMessage): boolean => {
    const source = clientKeyOf(remoteAddress);
    const unknown = sessions.keys().filter((each) => !each.isAuthenticated && each.source === source);
    return unknown.drop(maxUnknown - 1).some(() => true);
  };

  const upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    socket.on("error", () => socket.destroy());
    const [path] = (request.url ?? "").split("?", 1);
    const isFull = sessions.size >= maxSessions || hasTooManyUnknown(request);
    const status = path !== "/comms" ? 404 : isFull ? 503 : options.refusalOf(request);
    if (status !== undefined) {
      refuse(socket, status);
      return;
    }
    request.socket.setTimeout(0);
    sockets.handleUpgrade(request, socket, head, (opened) => {
      const revisionUrl = options.revisionUrlOf?.(request);
      const session = new CommsSession(opened, options.clientOf(request), { ...options, revisionUrl });
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
