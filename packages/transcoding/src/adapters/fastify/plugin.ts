import type { ContextValues } from "@connectrpc/connect";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { METHODS, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import type { Http2ServerRequest } from "node:http2";
import type { TranscodingResponse } from "../../http/response.ts";
import { readBody, streamBody } from "../node/body.ts";
import { isDestroyed, sendStream } from "../node/send-stream.ts";
import type { TranscoderOptions } from "../../transcoder/options.ts";
import type { TranscodingRequest } from "../../http/request.ts";
import { createTranscoder, type Transcoder } from "../../transcoder/transcoder.ts";
import { addVary } from "../../http/vary.ts";

export type FastifyTranscodingPluginOptions = TranscoderOptions & {
  /** Creates the context values of a request's call, as the option of fastifyConnectPlugin does. */
  contextValues?: (request: FastifyRequest) => ContextValues;
};

/**
 * A Fastify plugin that serves the RPCs of `routes` with a google.api.http rule as plain HTTP. It can be registered
 * together with fastifyConnectPlugin, which takes the same `routes`.
 *
 * The plugin registers a single wildcard route and does its own routing on the request target, without the instance's
 * prefix. It responds to all requests that no other route of the Fastify instance matches, including with 404 and 405. For
 * errors that Fastify responds with before routing, see `createFrameworkErrorHandler`.
 */
export function fastifyTranscodingPlugin(
  instance: FastifyInstance,
  options: FastifyTranscodingPluginOptions,
  done: (error?: Error) => void,
): void {
  let transcoder: Transcoder;
  try {
    transcoder = createTranscoder(options);
  } catch (error) {
    // A plugin with a callback must report errors through it.
    done(error as Error);
    return;
  }
  // Bodies must stay unread until the request gate has accepted the call.
  instance.removeAllContentTypeParsers();
  // A regular expression, since Fastify caches its matches; it would look up "*" for each request.
  instance.addContentTypeParser(/^/, (_request, _payload, parsed) => parsed(null));

  // Adds all methods that Node can parse, so that they get a 405 as well.
  for (const method of METHODS) {
    if (method !== "CONNECT" && !instance.supportedMethods.includes(method)) {
      instance.addHttpMethod(method, { hasBody: true });
    }
  }

  // Writes to the raw response, as fastifyConnectPlugin does, with the headers that hooks have set: reply.send() takes
  // about 5 % of the time of a small response.
  const send = (
    { status, headers, body }: TranscodingResponse,
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<void> | undefined => {
    const { raw } = request;
    let encoding: BufferEncoding = "utf8";
    if (typeof body === "string" || Buffer.isBuffer(body)) {
      const bytes = Buffer.byteLength(body);
      headers["content-length"] = String(bytes);
      // As many bytes as characters: the string is ASCII, which is written faster as latin1.
      encoding = bytes === body.length ? "latin1" : "utf8";
    } else if (
      body === undefined &&
      headers["content-length"] === undefined &&
      status !== 204 &&
      status !== 304 &&
      request.method !== "HEAD"
    ) {
      headers["content-length"] = "0";
    }
    if (!raw.complete && raw.httpVersionMajor === 1 && mustClose(raw)) {
      headers["connection"] = "close";
    }
    const hookHeaders = reply.getHeaders();
    for (const name in hookHeaders) {
      if (name === "vary") {
        addVary(headers, String(hookHeaders[name]));
      } else {
        headers[name] ??= hookHeaders[name] as string | string[];
      }
    }
    reply.raw.writeHead(status, headers);
    reply.hijack();
    if (body === undefined || typeof body === "string" || Buffer.isBuffer(body)) {
      reply.raw.end(body, encoding);
    } else {
      return sendStream(body, reply.raw).then(() => drainBody(raw));
    }
    drainBody(raw);
    return undefined;
  };
  // Not an async function, so that a synchronous response is sent without a promise.
  const handler = (request: FastifyRequest, reply: FastifyReply): Promise<void> | undefined => {
    const response = transcoder.handle(
      new FastifyTranscodingRequest(request, reply, instance.prefix, options.contextValues),
    );
    return response instanceof Promise
      ? response.then((settled) => send(settled, request, reply))
      : send(response, request, reply);
  };
  // Fastify does not check the Content-Type of these methods.
  const bodiless = ["GET", "HEAD"];
  instance.route({ method: bodiless, url: "/*", handler });
  instance.route({
    method: instance.supportedMethods.filter((method) => !bodiless.includes(method)),
    url: "/*",
    handler,
    preParsing(request, _reply, payload, parsed) {
      hideContentType(request);
      parsed(null, payload);
    },
  });
  done();
}

/**
 * Drains the unread HTTP/2 body so that the client is not left blocked by flow control. RFC 9113, section 8.1, also allows
 * a reset with NO_ERROR, but Node's client then treats the response as incomplete.
 */
function drainBody(request: IncomingMessage | Http2ServerRequest): void {
  if ("stream" in request && request.readableDidRead && !request.readableEnded) {
    request.resume();
  }
}

/** A Content-Type (RFC 9110, section 8.3.1) that Fastify accepts. */
const mediaType = /^\s*[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+\s*(?:;|$)/;

/**
 * Replaces a malformed Content-Type, or a missing one of QUERY, which Fastify would reject before later hooks run. The
 * transcoder validates the original header after all hooks.
 */
function hideContentType(request: FastifyRequest): void {
  const contentType = request.raw.headers["content-type"];
  if (contentType === undefined ? request.method === "QUERY" : !mediaType.test(contentType)) {
    request.headers = { "content-type": "application/octet-stream" };
  }
}

/** Up to this size Node discards an unread body and keeps the connection; after a larger one the connection is closed. */
const MAX_DISCARDED_BYTES = 64 * 1024;

function mustClose(request: IncomingMessage): boolean {
  const length = request.headers["content-length"];
  return length === undefined
    ? request.headers["transfer-encoding"] !== undefined
    : Number(length) > MAX_DISCARDED_BYTES;
}

/** A class, since one is created for each request: methods on the prototype need no closures. */
class FastifyTranscodingRequest implements TranscodingRequest {
  readonly httpMethod: string;
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  readonly #request: FastifyRequest;
  readonly #reply: FastifyReply;
  readonly #contextValues: FastifyTranscodingPluginOptions["contextValues"];

  constructor(
    request: FastifyRequest,
    reply: FastifyReply,
    prefix: string,
    contextValues: FastifyTranscodingPluginOptions["contextValues"],
  ) {
    const { method = "", url = "" } = request.raw;
    this.httpMethod = method;
    this.target = prefix !== "" && url.startsWith(prefix) ? url.slice(prefix.length) : url;
    this.headers = request.raw.headers;
    this.#request = request;
    this.#reply = reply;
    this.#contextValues = contextValues;
  }

  get httpVersionMajor(): number {
    return this.#request.raw.httpVersionMajor;
  }

  url(): string {
    return `${this.#request.protocol}://${this.#request.host}${this.#request.raw.url}`;
  }

  contextValues(): ContextValues | undefined {
    return this.#contextValues?.(this.#request);
  }

  onAbort(callback: () => void): void {
    const { raw } = this.#reply;
    const onClose = (): void => {
      if (!raw.writableEnded) {
        callback();
      }
    };
    if (isDestroyed(raw)) {
      onClose();
    } else {
      raw.on("close", onClose);
    }
  }

  hasBody(): boolean {
    return hasBody(this.#request.raw);
  }

  readBody(maxBytes: number): Promise<Uint8Array> {
    const { raw } = this.#request;
    return readBody(raw, raw.headers["content-length"], maxBytes);
  }

  streamBody(): AsyncIterable<Uint8Array> {
    return streamBody(this.#request.raw);
  }
}

function hasBody(request: IncomingMessage | Http2ServerRequest): boolean {
  if ("stream" in request) {
    return !request.stream.endAfterHeaders;
  }
  const length = request.headers["content-length"];
  return length === undefined ? request.headers["transfer-encoding"] !== undefined : length !== "0";
}
