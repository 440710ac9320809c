import { type IncomingHttpHeaders, type IncomingMessage, request as sendRequest } from "node:http";
import { pipeline, Transform } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { callerOf, requires, type RouteAccess } from "./access.ts";
import type { AuditRecorder } from "../auth/audit-recorder.ts";
import { originOf } from "../auth/caller.ts";
import { insufficientScope } from "../auth/errors.ts";
import { FlowgateError } from "../errors.ts";
import { callerHeaders } from "../runtime/node-permissions.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { assertRunner, type Runner } from "../services/runner.ts";

export type RegisteredRoutesOptions = {
  readonly runtime: Pick<Runtime, "connectAdmin">;
  readonly runner: Runner;
  readonly audit: Pick<AuditRecorder, "record">;
};

const bodyLimit = 5 * 1024 * 1024;
const maxResponseBytes = 16 * 1024 * 1024;
const timeoutMs = 30_000;

const authenticated: { readonly access: RouteAccess } = { access: { kind: "authenticated" } };

/**
 * The routes that nodes register, which the process of the flows serves. Flows can forge what it answers: so no request without a token
 * gets there, unless the service needs none, and no browser treats an answer as a page or keeps it.
 */
export function addRegisteredRoutes(app: FastifyInstance, { runtime, runner, audit }: RegisteredRoutesOptions): void {
  app.register(async (nodes) => {
    nodes.removeAllContentTypeParsers();
    nodes.addContentTypeParser(/^/, { parseAs: "buffer", bodyLimit }, (_request, body, parsed) => parsed(null, body));
    const serve = (request: FastifyRequest, reply: FastifyReply) => {
      assertRunner(runner);
      return forward(request, reply, runtime);
    };
    nodes.post<{ Params: { id: string } }>(
      "/inject/:id",
      { config: requires("runtime.inject"), bodyLimit },
      async (request, reply) => {
        await serve(request, reply);
        if (reply.statusCode === 200) {
          const origin = originOf({ values: request.values, protocolName: "http" });
          audit.record({ kind: "node_injected", origin, subject: request.params.id.slice(0, 300) });
        }
        return reply;
      },
    );
    nodes.all("/*", { config: authenticated, bodyLimit, onRequest: checkOtherRoute }, serve);
  });
}

/**
 * Nodes need not say which permission a route requires, and what is sent to one usually changes something: callers who may only read can't.
 * The path must be one that Express, in the process of the flows, and this listener read in the same way.
 */
function checkOtherRoute(request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
  const { url = "" } = request.raw;
  // Express ignores case, and reads backslashes as slashes in some places.
  if (!/^\/[^\\#]*$/.test(url) || /^\/inject(?:\/|$)/i.test(url)) {
    done(new FlowgateError("not_found", "no node has this route"));
    return;
  }
  const { permissions } = callerOf(request);
  const isRead = request.method === "GET" || request.method === "HEAD";
  if (isRead || permissions.some((permission) => !permission.endsWith(".read"))) {
    done();
  } else {
    done(insufficientScope("flows.write", request.headers.authorization !== undefined));
  }
}

/** Sends a request to the process of the flows, and its response to the client. */
async function forward(
  request: FastifyRequest,
  reply: FastifyReply,
  runtime: RegisteredRoutesOptions["runtime"],
): Promise<FastifyReply> {
  const response = await exchange(request, reply, runtime);
  const { statusCode = 502, headers } = response;
  if (statusCode < 200 || statusCode > 599) {
    response.destroy();
    throw unresponsive("answered with an invalid status");
  }
  for (const name of responseHeaders) {
    const value = headers[name];
    if (value !== undefined) {
      reply.header(name, value);
    }
  }
  reply.type(dataTypeOf(headers["content-type"]));
  const body = limitBytes(maxResponseBytes);
  // An error destroys the body, and with it the response to the client.
  pipeline(response, body, () => {});
  return reply.status(statusCode).headers(untrusted).send(body);
}

function exchange(
  request: FastifyRequest,
  reply: FastifyReply,
  runtime: RegisteredRoutesOptions["runtime"],
): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const connection = runtime.connectAdmin();
  const body = request.body instanceof Buffer ? request.body : undefined;
  const outgoing = sendRequest({
    createConnection: () => connection,
    method: request.method,
    path: request.raw.url,
    headers: { ...toForwarded(request, body), connection: "close" },
    maxHeaderSize: 16 * 1024,
  });
  const end = (): void => {
    clearTimeout(timer);
    connection.destroy();
  };
  const timer = setTimeout(() => {
    reject(unresponsive(`did not answer within ${timeoutMs} ms`));
    outgoing.destroy();
    end();
  }, timeoutMs);
  outgoing.on("error", () => {
    reject(unresponsive("did not answer with a valid response"));
    end();
  });
  outgoing.on("response", resolve);
  outgoing.on("upgrade", (_response, socket) => {
    reject(unresponsive("answered with another protocol"));
    socket.destroy();
  });
  reply.raw.once("close", () => {
    outgoing.destroy();
    end();
  });
  outgoing.end(body);
  return promise;
}

/** The client's header fields, without those that it does not need to know, and with the caller. */
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
  const { username, permissions } = callerOf(request);
  return {
    ...(forwarded as Record<string, string | string[]>),
    host: "flows",
    ...(body !== undefined && { "content-length": String(body.length) }),
    ...(username !== undefined && { [callerHeaders.name]: encodeURIComponent(username) }),
    // Those on tabs are not enough for routes of nodes.
    [callerHeaders.permissions]: permissions.filter((permission) => !permission.includes("@")).join(" "),
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
  /^(?:application\/(?:json|octet-stream|pdf|zip)|audio\/[\w.+-]+|image\/(?:gif|jpeg|png|webp)|text\/(?:csv|plain)|video\/[\w.+-]+)\s*(?:;\s*charset=[\w-]+)?$/i;

const responseHeaders = ["content-disposition", "content-encoding", "etag", "last-modified"] as const;

/** A page of a flow on the origin of the editor could use its token. A cached response could be loaded as a script without a token. */
const untrusted = {
  "content-security-policy": "sandbox; default-src 'none'",
  "cache-control": "no-store",
} as const;

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
  return new FlowgateError("flows_unresponsive", `the process of the flows ${what}: see the state of the runtime`);
}
