import {
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request as sendRequest,
} from "node:http";
import { pipeline, Transform } from "node:stream";
import { text } from "node:stream/consumers";
import { FlowgateError } from "@flowgate/flows/errors";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { authenticated, requires } from "./access.ts";
import { NodeRedError } from "./errors.ts";
import type { FlowRuntime } from "./host.ts";

type Runtime = Pick<FlowRuntime, "connect" | "redact">;

/** Of the body of an error, which is redacted as a whole. */
const maxErrorBytes = 64 * 1024;

/** Streams that are open at once, since each takes one of the connections to the runtime process. */
const maxStreams = 8;

const bodyLimit = 5 * 1024 * 1024;
const maxResponseBytes = 16 * 1024 * 1024;
const timeoutMs = 30_000;

/**
 * The routes that nodes register, which the runtime process serves. Flows can forge what it answers: so no request without a token gets
 * there, unless the service needs none, and no browser treats an answer as a page or keeps it. `closing` ends event streams.
 */
export function addRegisteredRoutes(app: FastifyInstance, runtime: Runtime, closing: AbortSignal): void {
  const streams = new EventStreams(closing);
  app.register(async (nodes) => {
    nodes.removeAllContentTypeParsers();
    nodes.addContentTypeParser(/^/, { parseAs: "buffer", bodyLimit }, (_request, body, parsed) => parsed(null, body));
    const serve = (request: FastifyRequest, reply: FastifyReply) => forward(request, reply, runtime, streams);
    nodes.post<{ Params: { id: string } }>(
      "/inject/:id",
      { config: requires("runtime.inject"), bodyLimit },
      async (request, reply) => {
        await serve(request, reply);
        if (reply.statusCode === 200) {
          request.caller.injected(request.params.id);
        }
        return reply;
      },
    );
    nodes.all("/*", { config: authenticated, bodyLimit, onRequest: checkOtherRoute }, serve);
  });
}

/**
 * Nodes need not say which permission a route requires, and what is sent to one usually changes something: callers who may only read can't.
 * The path must be one that Express, in the runtime process, and this listener read in the same way.
 */
function checkOtherRoute(request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
  const { url = "" } = request.raw;
  // Express ignores case, and reads backslashes as slashes in some places.
  if (!/^\/[^\\#]*$/.test(url) || /^\/inject(?:\/|$)/i.test(url)) {
    done(new FlowgateError("not_found", "no node has this route"));
    return;
  }
  const { permissions } = request.caller;
  const isRead = request.method === "GET" || request.method === "HEAD";
  if (isRead || permissions.some((permission) => !permission.endsWith(".read"))) {
    done();
  } else {
    const challenge = `Bearer realm="flowgate", error="insufficient_scope", scope="flows.write"`;
    done(new FlowgateError("insufficient_scope", "the caller may only read", { challenge }));
  }
}

/** Sends a request to the runtime process, and its response to the client. */
async function forward(
  request: FastifyRequest,
  reply: FastifyReply,
  runtime: Runtime,
  streams: EventStreams,
): Promise<FastifyReply> {
  const response = await exchange(request, reply, runtime);
  const { statusCode = 502, headers } = response;
  if (statusCode < 200 || statusCode > 599) {
    response.destroy();
    throw unresponsive("answered with an invalid status");
  }
  if (redirectStatuses.has(statusCode)) {
    response.destroy();
    const location = redirectTarget(request, headers.location);
    // A browser would send the body of another request, and its token, to the new place.
    const status = request.method === "GET" || request.method === "HEAD" ? statusCode : 303;
    return reply.status(status).headers(untrusted).header("location", location).send();
  }
  if (statusCode >= 400) {
    const error = runtime.redact(await readError(response));
    return reply.status(statusCode).headers(untrusted).type(dataTypeOf(headers["content-type"])).send(error);
  }
  for (const name of responseHeaders) {
    const value = headers[name];
    if (value !== undefined) {
      reply.header(name, value);
    }
  }
  reply.type(dataTypeOf(headers["content-type"]));
  if (isEventStream(response)) {
    return streams.send(request, reply.status(statusCode).headers(untrusted), response);
  }
  const body = limitBytes(maxResponseBytes);
  // An error destroys the body, and with it the response to the client.
  pipeline(response, body, () => {});
  return reply.status(statusCode).headers(untrusted).send(body);
}

function exchange(request: FastifyRequest, reply: FastifyReply, runtime: Runtime): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const { connection, headers } = runtime.connect(request.caller);
  const body = request.body instanceof Buffer ? request.body : undefined;
  const outgoing = sendRequest({
    createConnection: () => connection,
    method: request.method,
    path: request.raw.url,
    headers: { ...toForwarded(request, body), ...headers, connection: "close" },
    maxHeaderSize: 16 * 1024,
  });
  const end = (): void => {
    clearTimeout(timer);
    outgoing.destroy();
    connection.destroy();
  };
  const fail = (what: string): void => {
    reject(unresponsive(what));
    end();
  };
  const timer = setTimeout(() => fail(`did not answer within ${timeoutMs} ms`), timeoutMs);
  outgoing.on("error", () => fail("did not answer with a valid response"));
  outgoing.on("upgrade", () => fail("answered with another protocol"));
  outgoing.on("response", (response) => {
    if (isEventStream(response)) {
      clearTimeout(timer);
    }
    resolve(response);
  });
  reply.raw.once("close", end);
  outgoing.end(body);
  return promise;
}

/** The client's header fields, without those that nodes do not need to know. */
function toForwarded(request: FastifyRequest, body: Buffer | undefined): Record<string, string | string[]> {
  const forwarded: IncomingHttpHeaders = {};
  for (const [name, value] of Object.entries(request.headers)) {
    if (
      value !== undefined &&
      !/^(?:authorization|cookie|host|connection|keep-alive|transfer-encoding|te|trailer|upgrade|expect|content-length|proxy-.*|forwarded|x-forwarded-.*|x-flowgate-.*|sec-.*)$/.test(
        name,
      )
    ) {
      forwarded[name] = value;
    }
  }
  return {
    ...(forwarded as Record<string, string | string[]>),
    // What nodes build URLs of their routes with.
    host: request.host,
    "x-forwarded-proto": request.protocol,
    "x-forwarded-for": request.ip,
    ...(body !== undefined && { "content-length": String(body.length) }),
  };
}

/**
 * The type of an answer, if it is one of data. The editor's jQuery executes what is a script, and browsers load nothing as a script or a style
 * sheet that is text.
 */
function dataTypeOf(contentType = ""): string {
  return dataTypes.test(contentType) ? contentType : "text/plain; charset=utf-8";
}

const dataTypes =
  /^(?:application\/(?:json|octet-stream|pdf|zip)|audio\/[\w.+-]+|image\/(?:gif|jpeg|png|webp)|text\/(?:csv|event-stream|plain)|video\/[\w.+-]+)\s*(?:;\s*charset=[\w-]+)?$/i;

const responseHeaders = ["content-disposition", "content-encoding", "etag", "last-modified"] as const;

const redirectStatuses: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/**
 * Where a client is sent: a path of this listener, or an https URL elsewhere if the response is that of a page, which then shows another
 * site. For other requests, such as those of a script in the editor, that could reveal what they contain.
 */
function redirectTarget({ host, protocol, raw, headers }: FastifyRequest, location: string | undefined): string {
  const target = location === undefined ? null : URL.parse(location, `${protocol}://${host}${raw.url ?? "/"}`);
  if (target !== null && /^https?:$/.test(target.protocol) && target.host.toLowerCase() === host.toLowerCase()) {
    // A path with two slashes at its beginning would name a host.
    return `${target.pathname.replace(/^\/+/, "/")}${target.search}${target.hash}`;
  }
  if (target?.protocol !== "https:" || target.username !== "" || target.password !== "") {
    throw new NodeRedError(
      502,
      "invalid_redirect",
      "the route of the node redirects to an address that is not permitted: it must be one of this service, or an https URL",
    );
  }
  // Programs send no such header, and browsers none without TLS.
  if ((headers["sec-fetch-dest"] ?? "document") !== "document") {
    throw new NodeRedError(
      502,
      "redirect_elsewhere",
      `the route of the node redirects to ${target.host}: open it as a page of the browser`,
    );
  }
  return target.href;
}

function isEventStream({ headers }: IncomingMessage): boolean {
  return /^text\/event-stream\s*(?:;|$)/i.test(headers["content-type"] ?? "");
}

/** Event streams of nodes. They end with their token, with the listener, or when much was sent, after which browsers connect again. */
class EventStreams {
  readonly #closing: AbortSignal;
  #count = 0;

  constructor(closing: AbortSignal) {
    this.#closing = closing;
  }

  send(request: FastifyRequest, reply: FastifyReply, response: IncomingMessage): FastifyReply {
    if (this.#count >= maxStreams) {
      response.destroy();
      throw new FlowgateError(
        "limit_exceeded",
        `${maxStreams} event streams of nodes are open already: try again later`,
      );
    }
    this.#count += 1;
    const end = (): void => void response.destroy();
    const revocation = request.caller.onRevoked(end);
    this.#closing.addEventListener("abort", end, { once: true });
    reply.raw.once("close", () => {
      this.#count -= 1;
      revocation[Symbol.dispose]();
      this.#closing.removeEventListener("abort", end);
    });
    // Fastify would send the header with the first event.
    reply.hijack();
    reply.raw.writeHead(reply.statusCode, reply.getHeaders() as OutgoingHttpHeaders).flushHeaders();
    pipeline(response, limitBytes(maxResponseBytes), reply.raw, () => {});
    return reply;
  }
}

/** A page of a flow on the origin of the editor could use its token. A cached response could be loaded as a script without a token. */
const untrusted = { "content-security-policy": "sandbox; default-src 'none'", "cache-control": "no-store" } as const;

/** Errors are texts, which can have values of credentials, unlike what nodes answer on purpose. */
async function readError(response: IncomingMessage): Promise<string> {
  if (response.headers["content-encoding"] !== undefined) {
    response.destroy();
    return "the route of the node has failed";
  }
  try {
    return await text(response.compose(limitBytes(maxErrorBytes)));
  } catch {
    throw unresponsive("answered with an error that is incomplete or too long");
  }
}

/** Fails when more has passed. */
function limitBytes(max: number): Transform {
  let left = max;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      left -= chunk.length;
      if (left < 0) {
        done(unresponsive("answered with too much"));
      } else {
        done(null, chunk);
      }
    },
  });
}

function unresponsive(what: string): FlowgateError {
  return new FlowgateError("flows_unresponsive", `the runtime process ${what}: see the state of the runtime`);
}
