import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import { Socket } from "node:net";
import { adminFd } from "../messages.ts";
import { callerHeaders, permissionOfNode } from "../node-permissions.ts";
import type { NodeRed } from "./node-red.ts";

type Next = (error?: unknown) => void;
type Middleware = (request: IncomingMessage, response: ServerResponse, next: Next) => void;

/** The part of Node-RED's admin API that nodes use: the check of a permission, before a route of theirs. */
export const adminApi = {
  auth: { needsPermission: (name: string | readonly string[]): Middleware => requirePermissions([name].flat()) },
  adminApp: {},
  server: {},
};

function requirePermissions(names: readonly string[]): Middleware {
  const required = names.map(permissionOfNode).filter((permission) => permission !== undefined);
  return (request, response, next) => {
    const { permissions } = callerOf(request);
    if (required.every((permission) => permissions.includes(permission))) {
      next();
    } else {
      response.writeHead(401).end();
    }
  };
}

type Caller = { readonly username: string | undefined; readonly permissions: readonly string[] };

function callerOf({ headers }: IncomingMessage): Caller {
  const { [callerHeaders.name]: name, [callerHeaders.permissions]: permissions = "" } = headers;
  return {
    username: typeof name === "string" ? decodeURIComponent(name) : undefined,
    permissions: String(permissions).split(" "),
  };
}

/** Of a body, which the service has limited already. */
const bodyLimit = "64mb";

/** Serves the routes that nodes have registered, over the pipe of the service. Nothing of it is loaded before it is asked for. */
export function serveAdminApp(app: Middleware, { loadExpress }: Pick<NodeRed, "loadExpress">): void {
  const express = loadExpress();
  const parsers = [express.json({ limit: bodyLimit }), express.urlencoded({ limit: bodyLimit, extended: true })];
  const handle: RequestListener = (request, response) => {
    const { username, permissions } = callerOf(request);
    Object.assign(request, { user: { username, permissions, anonymous: username === undefined } });
    const end: Next = (error) => respond(response, error);
    const run = (at: number): void => {
      const parser = parsers[at];
      if (parser === undefined) {
        app(request, response, end);
      } else {
        parser(request, response, (error) => (error === undefined ? run(at + 1) : end(error)));
      }
    };
    run(0);
  };
  const server = createServer(handle);
  // Not loaded in processes that are never asked: it takes milliseconds and memory.
  const { performServerHandshake } = process.getBuiltinModule("node:http2");
  const session = performServerHandshake(new Socket({ fd: adminFd }), { settings: { maxConcurrentStreams: 64 } });
  // The service has closed it, or a flow has written to it.
  session.on("error", () => {});
  session.on("stream", (stream, headers) => {
    stream.on("error", () => {});
    if (headers[":method"] !== "CONNECT") {
      stream.close();
      return;
    }
    stream.respond({ ":status": 200 });
    server.emit("connection", stream);
  });
}

/** No node has such a route, or it has failed. */
function respond(response: ServerResponse, error: unknown): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const { status = 500 } = Object(error) as { readonly status?: unknown };
  const code = error === undefined ? 404 : typeof status === "number" && status >= 400 && status < 500 ? status : 500;
  const body =
    code === 404
      ? { code: "not_found", message: "no node has this route" }
      : { code: "unexpected_error", message: "the route of the node has failed" };
  response.writeHead(code, { "content-type": "application/json" }).end(JSON.stringify(body));
}
