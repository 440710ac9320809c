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
  /** As of fastifyConnectPlugin: values for the calls that a request makes. */
  contextValues?: (request: FastifyRequest) => ContextValues;
};

/**
 * Serves the RPCs of `routes` that have a google.api.http rule as plain HTTP, beside
 * fastifyConnectPlugin, which takes the same function.
 *
 * It registers one wildcard route, and matches the raw request target itself, without the instance's prefix: whatever
 * no other route of this Fastify instance takes is answered here, 404 and 405 included. What Fastify itself refuses
 * before any route is for `createFrameworkErrorHandler`.
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
    // Fastify takes an error of a plugin by `done` alone.
    done(error as Error);
    return;
  }
  // Bodies stay unread until a call has passed the gate.
  instance.removeAllContentTypeParsers();
  // By an expression, for Fastify keeps what it finds by one; what "*" stands for it would look for each time.
  instance.addContentTypeParser(/^/, (_request, _payload, parsed) => parsed(null));

  // 405 knows every method that Node can parse, not just those that Fastify has by default.
  for (const method of METHODS) {
    if (method !== "CONNECT" && !instance.supportedMethods.includes(method)) {
      instance.addHttpMethod(method, { hasBody: true });
    }
  }

  // As fastifyConnectPlugin does, it writes the raw response itself, with the headers that hooks have set:
  // reply.send() would cost a twentieth of a small answer's time.
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
      // Text of as many bytes as characters is ASCII, which goes out faster as what it is.
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
    const hooked = reply.getHeaders();
    for (const name in hooked) {
      if (name === "vary") {
        addVary(headers, String(hooked[name]));
      } else {
        headers[name] ??= hooked[name] as string | string[];
      }
    }
    reply.raw.writeHead(status, headers);
    reply.hijack();
    if (body === undefined || typeof body === "string" || Buffer.isBuffer(body)) {
      reply.raw.end(body, encoding);
    } else {
      return sendStream(body, reply.raw).then(() => skipRest(raw));
    }
    skipRest(raw);
    return undefined;
  };
  // Not an async function: an answer that is there at once goes out at once.
  const handler = (request: FastifyRequest, reply: FastifyReply): Promise<void> | undefined => {
    const answered = transcoder.handle(
      new FastifyTranscodingRequest(request, reply, instance.prefix, options.contextValues),
    );
    return answered instanceof Promise
      ? answered.then((answer) => send(answer, request, reply))
      : send(answered, request, reply);
  };
  // Of these Fastify does not look at a Content-Type.
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
 * Reads away what is left of a body over HTTP/2, lest its client wait for ever to send it. A reset without error would be
 * right too (RFC 9113, section 8.1), but Node's own client takes the answer for an incomplete one then.
 */
function skipRest(request: IncomingMessage | Http2ServerRequest): void {
  if ("stream" in request && request.readableDidRead && !request.readableEnded) {
    request.resume();
  }
}

/** As Fastify knows one (RFC 9110, section 8.3.1). */
const mediaType = /^\s*[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+\s*(?:;|$)/;

/**
 * Fastify refuses a Content-Type that is malformed, or absent from QUERY, before the hooks that come after parsing. What
 * one may be is for the transcoder to say, which reads the raw headers, and only behind all hooks.
 */
function hideContentType(request: FastifyRequest): void {
  const contentType = request.raw.headers["content-type"];
  if (contentType === undefined ? request.method === "QUERY" : !mediaType.test(contentType)) {
    request.headers = { "content-type": "application/octet-stream" };
  }
}

/** A short rest of an unread body is skipped by Node, and the connection lives on; for a long one it may not. */
const SKIPPED_BYTES = 64 * 1024;

function mustClose(request: IncomingMessage): boolean {
  const length = request.headers["content-length"];
  return length === undefined ? request.headers["transfer-encoding"] !== undefined : Number(length) > SKIPPED_BYTES;
}

/** A class, for it is made on every request: its methods cost nothing until they are called. */
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
    const leave = (): void => {
      if (!raw.writableEnded) {
        callback();
      }
    };
    if (isDestroyed(raw)) {
      leave();
    } else {
      raw.on("close", leave);
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
