import type { GatewayResponse } from "../../http/response.ts";
import { fetchOptionChecks } from "../../options/adapter-checks.ts";
import { allProtocols, type GatewayOptions } from "../../options/options.ts";
import { createGateway, createRestGateway, type Gateway } from "../../gateway.ts";
import { type AdapterOptions, createAdapterGateway } from "../adapter.ts";
import { FetchGatewayRequest } from "./request.ts";
import { encodeUtf8 } from "#platform/bytes";
import { setContentLength } from "../content-length.ts";

/** `Context` are the arguments that the server passes after the request, such as the environment of a worker. */
export type FetchHandlerOptions<Context extends readonly unknown[] = readonly unknown[]> = AdapterOptions<
  [request: Request, ...context: Context]
> & {
  /**
   * The HTTP version of the clients' connections, which a Request does not contain. Bidirectional streams require HTTP/2.
   * Default: "1.1".
   */
  httpVersion?: "1.1" | "2";
};

/** A function from Request to Response. Returns a promise if something has to be awaited, and always with the option `cors`. */
export type FetchHandler<Context extends readonly unknown[] = readonly unknown[], Result = Response> = {
  (request: Request, ...context: Context): Result | Promise<Response>;
  /** Routes a request without responding to it. `target` is its path and query, still percent-encoded. */
  readonly match: Gateway["match"];
};

/**
 * Creates a function that serves the RPCs of `routes` over Connect and gRPC-Web, and RPCs with a google.api.http rule
 * over REST. gRPC needs trailers, which a Response can't have. With the option `unknownPath: "pass"` it returns
 * undefined for an unknown path.
 */
export function createFetchHandler<Context extends readonly unknown[] = readonly unknown[]>(
  options: FetchHandlerOptions<Context> & { readonly unknownPath: "pass" },
): FetchHandler<Context, Response | undefined>;
export function createFetchHandler<Context extends readonly unknown[] = readonly unknown[]>(
  options: FetchHandlerOptions<Context>,
): FetchHandler<Context>;
export function createFetchHandler<Context extends readonly unknown[]>(
  options: FetchHandlerOptions<Context>,
): FetchHandler<Context, Response | undefined> {
  return createHandler(options, createFetchGateway);
}

/** Serves the protocols that a Response can carry. */
function createFetchGateway(options: GatewayOptions): Gateway {
  const protocols = (options.protocols ?? allProtocols).filter((protocol) => protocol !== "grpc");
  if (protocols.length === 0) {
    throw new Error(
      'a fetch handler can\'t serve gRPC, which needs trailers: the option protocols must have another protocol, such as "grpc-web"',
    );
  }
  return createGateway({ ...options, protocols });
}

/** The same for REST alone. A bundle has no code of the other protocols, which `createFetchHandler` with `protocols: ["rest"]` would have. */
export function createRestFetchHandler<Context extends readonly unknown[] = readonly unknown[]>(
  options: Omit<FetchHandlerOptions<Context>, "protocols"> & { readonly unknownPath: "pass" },
): FetchHandler<Context, Response | undefined>;
export function createRestFetchHandler<Context extends readonly unknown[] = readonly unknown[]>(
  options: Omit<FetchHandlerOptions<Context>, "protocols">,
): FetchHandler<Context>;
export function createRestFetchHandler<Context extends readonly unknown[]>(
  options: Omit<FetchHandlerOptions<Context>, "protocols">,
): FetchHandler<Context, Response | undefined> {
  return createHandler(options, createRestGateway);
}

function createHandler<Context extends readonly unknown[]>(
  options: FetchHandlerOptions<Context>,
  create: typeof createGateway,
): FetchHandler<Context, Response | undefined> {
  const { match } = createAdapterGateway(create, options, fetchOptionChecks);
  const { contextValues } = options;
  const httpVersionMajor = options.httpVersion === "2" ? 2 : 1;
  const passes = options.unknownPath === "pass";

  const handle = (request: Request, ...context: Context): Response | undefined | Promise<Response> => {
    const { method } = request;
    const target = targetOf(request.url);
    const received = new FetchGatewayRequest(request, target, httpVersionMajor, () =>
      contextValues?.(request, ...context),
    );
    const matched = match(method, target, received.headers);
    if (passes && !matched.isKnownPath) {
      return undefined;
    }
    const send = (response: GatewayResponse): Response => createResponse(response, method);
    const response = matched.respond(received);
    return response instanceof Promise ? response.then(send) : send(response);
  };
  return Object.assign(handle, { match });
}

function targetOf(url: string): string {
  const start = url.indexOf("/", url.indexOf("://") + 3);
  const end = url.indexOf("#", start);
  return start === -1 ? "/" : url.slice(start, end === -1 ? undefined : end);
}

/** Creates the Response of a server. Its stream applies backpressure, and cancelling it ends the call. */
function createResponse(result: GatewayResponse, httpMethod: string): Response {
  setContentLength(result, httpMethod);
  const { status, headers, body } = result;
  // Cloudflare Workers compress a body with Content-Encoding, unless `encodeBody` is "manual".
  const init = { status, headers: headersOf(headers), encodeBody: "manual" };
  if (status === 204 || status === 205 || status === 304) {
    return new Response(null, init);
  }
  if (body === undefined || httpMethod === "HEAD") {
    // Servers would add a Content-Length of 0 for null, which is wrong for the header of a stream.
    return new Response(headers["content-length"] === undefined ? emptyStream() : null, init);
  }
  return new Response(
    typeof body === "string" ? body : body instanceof Uint8Array ? (body as Uint8Array<ArrayBuffer>) : streamOf(body),
    init,
  );
}

/** The same object if each header has one value, which servers write without creating Headers. */
function headersOf(headers: GatewayResponse["headers"]): Headers | Record<string, string> {
  const values = Object.values(headers);
  if (values.every((value) => typeof value === "string")) {
    return headers as Record<string, string>;
  }
  const all = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    for (const each of [value].flat()) {
      all.append(name, each);
    }
  }
  return all;
}

function emptyStream(): ReadableStream<Uint8Array> {
  return new ReadableStream({ pull: (controller) => controller.close() }, { highWaterMark: 0 });
}

function streamOf(body: AsyncIterable<string | Uint8Array>): ReadableStream<Uint8Array> {
  const iterator = body[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await iterator.next();
          if (done === true) {
            controller.close();
          } else if (value.length > 0) {
            controller.enqueue(typeof value === "string" ? encodeUtf8(value) : value);
          }
        } catch {
          // Servers discard chunks that they have not sent yet when a stream fails. The last one has the error.
          await new Promise((resolve) => setTimeout(resolve));
          // Servers log this error, and some send its message.
          controller.error(new Error("the stream of responses has ended with an error"));
        }
      },
      async cancel() {
        await iterator.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}
