import type { GatewayResponse } from "../../http/response.ts";
import { fetchOptionChecks } from "../../options/adapter-checks.ts";
import { allProtocols, type GatewayOptions } from "../../options/options.ts";
import { createGateway, createRestGateway, type Gateway } from "../../gateway.ts";
import { createAdapterGateway, type AdapterOptions } from "../adapter.ts";
import { FetchGatewayRequest } from "./request.ts";
import { createResponse } from "./response.ts";

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
 * Creates a function that serves the RPCs of `routes` over Connect, gRPC-Web, and REST for those with a google.api.http rule. gRPC needs
 * trailers, which a Response can't have. With the option `unknownPath: "pass"` it returns undefined for an unknown path.
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

/** Path and query of an absolute URL. */
function targetOf(url: string): string {
  const start = url.indexOf("/", url.indexOf("://") + 3);
  const end = url.indexOf("#", start);
  return start === -1 ? "/" : url.slice(start, end === -1 ? undefined : end);
}
