import { createServer as createHttpServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createHttpsServer, type Server as HttpsServer } from "node:https";
import type { Duplex } from "node:stream";
import { addressOf, listen } from "@flowgate/base/addresses";
import type { Certificate, FlowHttp, FlowUser } from "../flow-settings.ts";
import type { Listen } from "../messages.ts";
import { type ExpressHandler, type NodeRed, toCorsOptions } from "./node-red.ts";
import { hash, timingSafeEqual } from "node:crypto";
import { parsePasswordHash, verifyArgon2id } from "@flowgate/base/password-hash";

type FlowPortOptions = {
  readonly nodeRed: Pick<NodeRed, "runtime" | "loadExpress" | "loadCors">;
  readonly http: FlowHttp;
  /** Node-RED's `httpServerOptions`: settings of Express by name. */
  readonly expressSettings: Readonly<Record<string, unknown>>;
};

/** The port of HTTP-in nodes, and of files. */
export class FlowPort {
  readonly #options: FlowPortOptions;
  /** The server that nodes see. It does not listen if requests are checked before they reach it, or if they come over TLS. */
  readonly server: Server;
  #handle: (request: IncomingMessage, response: ServerResponse) => void = (request, response) =>
    this.#options.nodeRed.runtime.httpNode(request, response);
  #listener: Server | HttpsServer | undefined;
  #ipv6: { close(): void } | undefined;

  constructor(options: FlowPortOptions) {
    this.#options = options;
    this.server = createHttpServer((request, response) => this.#handle(request, response));
  }

  /** Must be called when the runtime is initialized, before there are nodes. */
  mount(): void {
    const { nodeRed, http, expressSettings } = this.#options;
    // Otherwise `httpNode` is used directly, not mounted in another Express app: the HTTP-in node reorders the routes of the root app,
    // and only supports the runtime's own version of Express. `httpAdmin` is not mounted, because it has no authentication: see admin-server.ts.
    if (http.root === "/" && http.static.length === 0) {
      return;
    }
    const express = nodeRed.loadExpress();
    const app = express();
    // Errors are answered without their stacks.
    for (const [name, value] of Object.entries({ env: "production", "x-powered-by": false, ...expressSettings })) {
      app.set(name, value);
    }
    app.use(http.root, nodeRed.runtime.httpNode);
    const check = http.staticAuth && createUserCheck(http.staticAuth);
    for (const { path, root, cors, maxAgeSeconds } of http.static) {
      app.use(
        root,
        ...(check ? [requireUser(check)] : []),
        ...(cors ? [nodeRed.loadCors()(toCorsOptions(cors))] : []),
        express.static(path, { maxAge: maxAgeSeconds * 1_000 }),
      );
    }
    this.#handle = app;
  }

  /** Returns the port. Rejects with the error of Node if it can't be opened. */
  async open({ host, httpPort, certificate }: Listen): Promise<number> {
    const { auth } = this.#options.http;
    // As Node does for a server without listeners: nothing would ever answer these, since nodes add theirs to `server`.
    const upgrades = { shouldUpgradeCallback: () => this.server.listenerCount("upgrade") > 0 };
    const plain = auth === undefined ? this.server : createHttpServer(upgrades);
    const listener = certificate === undefined ? plain : createHttpsServer({ ...certificate, ...upgrades });
    if (listener !== this.server) {
      this.#forward(listener, auth && createUserCheck(auth));
    }
    this.#listener = listener;
    const ipv6 = await listen(listener, host, httpPort);
    ipv6?.on("connection", (socket) => listener.emit("connection", socket));
    this.#ipv6 = ipv6;
    return addressOf(listener).port;
  }

  /** Uses the certificate for new connections, if it is open with TLS. */
  replaceCertificate(certificate: Certificate): void {
    if (this.#listener !== undefined && "setSecureContext" in this.#listener) {
      this.#listener.setSecureContext(certificate);
    }
  }

  close(): void {
    this.#listener?.close();
    this.#ipv6?.close();
    this.#listener?.closeAllConnections();
  }

  /** Gives nodes what arrives, with a valid user if one is required. */
  #forward(listener: Server | HttpsServer, check: UserCheck | undefined): void {
    const { server } = this;
    const { nodeRed, http } = this.#options;
    const pass = (request: IncomingMessage, response: ServerResponse): void =>
      void server.emit("request", request, response);
    if (check === undefined) {
      listener.on("request", pass);
      listener.on("upgrade", (...upgrade) => void server.emit("upgrade", ...upgrade));
      return;
    }
    const gate = nodeRed.loadExpress()();
    gate.set("x-powered-by", false);
    gate.use(http.root, requireUser(check));
    gate.use("/", pass);
    listener.on("request", gate);
    listener.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      socket.on("error", () => socket.destroy());
      void check(request.headers.authorization).then((result) => {
        if (result === "valid") {
          server.emit("upgrade", request, socket, head);
        } else {
          socket.end(
            `HTTP/1.1 ${result === "busy" ? "503 Service Unavailable" : `401 Unauthorized\r\nWWW-Authenticate: ${challenge}`}\r\nConnection: close\r\n\r\n`,
          );
        }
      });
    });
  }
}

const challenge = 'Basic realm="flows", charset="UTF-8"';

function requireUser(check: UserCheck): ExpressHandler {
  return (request, response, next) => void admit(check, request, response, next);
}

/** Answers requests without a valid user. Preflight requests of CORS have none. */
async function admit(check: UserCheck, ...[request, response, next]: Parameters<ExpressHandler>): Promise<void> {
  const { method, headers } = request;
  const isPreflight = method === "OPTIONS" && headers["access-control-request-method"] !== undefined;
  const result = isPreflight ? "valid" : await check(headers.authorization);
  if (result === "valid") {
    next();
  } else if (result === "busy") {
    response.writeHead(503, { "Retry-After": "1" }).end();
  } else {
    response.writeHead(401, { "WWW-Authenticate": challenge }).end("Unauthorized");
  }
}

/** Never rejects. `busy`: too many other passwords are being checked. */
type UserCheck = (authorization: string | undefined) => Promise<"valid" | "invalid" | "busy">;

/** Checks that are in progress or wait. They take turns, since each takes tens of milliseconds of a core, and memory. */
const maxChecks = 16;

/** Returns a function that checks the name and password in an Authorization header (RFC 7617). */
function createUserCheck({ username, password }: FlowUser): UserCheck {
  const passwordHash = parsePasswordHash(password);
  /** Of what was valid last: a password is checked at each request. */
  let valid: Buffer | undefined;
  let checks = 0;
  let last: Promise<unknown> = Promise.resolve();

  const verify = async (given: string): Promise<boolean> => {
    if (passwordHash?.kind === "argon2id") {
      return verifyArgon2id(given, passwordHash);
    }
    // Loaded when it is needed only: it works in slices of the event loop.
    const { compare } = await import("bcryptjs");
    return passwordHash !== undefined && compare(given.slice(0, 73), passwordHash.text);
  };

  return async (authorization = "") => {
    const digest = hash("sha256", authorization, "buffer");
    if (valid !== undefined && timingSafeEqual(valid, digest)) {
      return "valid";
    }
    const given = parseBasic(authorization);
    if (given?.username !== username) {
      return "invalid";
    }
    if (checks >= maxChecks) {
      return "busy";
    }
    checks += 1;
    const check = last.then(() => verify(given.password));
    last = check.catch(() => {});
    try {
      const isValid = await check;
      valid = isValid ? digest : valid;
      return isValid ? "valid" : "invalid";
    } catch {
      // There was not enough memory for it.
      return "busy";
    } finally {
      checks -= 1;
    }
  };
}

function parseBasic(authorization: string): { readonly username: string; readonly password: string } | undefined {
  const [, encoded = ""] = /^Basic +([\w+/]+=*) *$/i.exec(authorization) ?? [];
  const text = Buffer.from(encoded, "base64").toString();
  const colon = text.indexOf(":");
  return colon === -1 ? undefined : { username: text.slice(0, colon), password: text.slice(colon + 1) };
}
