import type { DescMethod } from "@bufbuild/protobuf";
import { cors as connectCors } from "@connectrpc/connect";
import { collectImplementations, type Implementation, type StreamImplementation } from "./call/implementations.ts";
import { createOpenStreamsOf } from "./call/shutdown.ts";
import type { ReportError } from "./errors/report-error.ts";
import { type Cors, type CorsHeaders, createCors } from "./http/cors.ts";
import type { GatewayRequest, RequestHeaders } from "./http/request.ts";
import type { GatewayResponse } from "./http/response.ts";
import { checkOptions } from "./options/check-options.ts";
import { gatewayOptionChecks, restOptionChecks } from "./options/option-checks.ts";
import { completeOptions, type CompleteGatewayOptions, type GatewayOptions } from "./options/options.ts";
import { createRest, pathOf, type Rest, type RestMatch } from "./protocols/rest/rest.ts";
import { createRpcHandler, type RpcHandler } from "./protocols/rpc-handler.ts";
import { isRpcRequest, rejectUnknownRpc } from "./protocols/rpc-rejection.ts";
import { decodePath } from "./routing/percent.ts";
import type { Route } from "./routing/route.ts";
import { standardServices } from "./services/standard-services.ts";

/** The result of routing a request; the request is not read for it. */
export type GatewayMatch = Omit<RestMatch, "kind"> & {
  /** "rpc" for Connect, gRPC and gRPC-Web, between which the headers of the request decide. It determines the format of errors. */
  readonly kind: "rpc" | "rest";
};

/** Serves the RPCs of registered services over several protocols. Created by `createGateway`. */
export type Gateway = {
  /** Responds to a request. Never throws or rejects. Returns a promise if something has to be awaited, and always with the option `cors`. */
  readonly handle: (request: GatewayRequest) => GatewayResponse | Promise<GatewayResponse>;
  /**
   * Routes a request without responding to it. `target` is the request target as it was sent. `headers` are used to respond to an
   * RPC client with an unknown path in its protocol.
   */
  readonly match: (httpMethod: string, target: string, headers?: RequestHeaders) => GatewayMatch;
  readonly methods: readonly DescMethod[];
  readonly routes: readonly Route[];
};

type Implementations = readonly (Implementation | StreamImplementation)[];

/** The protocols that serve RPCs. A parameter of `assemble`, so that a bundle without it has none of its code. */
type RpcProtocols = {
  readonly services: typeof standardServices;
  /** Adds the RPC protocols to REST. */
  readonly add: (
    rest: Rest["match"],
    implementations: Implementations,
    options: CompleteGatewayOptions,
  ) => { readonly match: Gateway["match"]; readonly corsHeaders: CorsHeaders };
};

export type RestGatewayOptions = Omit<GatewayOptions, "protocols" | "health" | "reflection">;

/**
 * Compiles the RPCs of the registered services for the protocols of the options. Throws an Error if an option or a google.api.http rule is
 * invalid or not supported.
 */
export function createGateway(options: GatewayOptions): Gateway {
  return assemble(options, rpcProtocols);
}

/** The same for REST alone. A bundle has no code of the other protocols then. */
export function createRestGateway(options: RestGatewayOptions): Gateway {
  return assemble(options, undefined);
}

function assemble(given: GatewayOptions, more: RpcProtocols | undefined): Gateway {
  checkOptions(given, more === undefined ? restOptionChecks : gatewayOptionChecks);
  checkStandardServices(given);
  const registered = collectImplementations(given.routes);
  const implementations = registered.concat(more?.services(given, registered) ?? []);
  const methods = implementations.map(({ method }) => method);
  const options = completeOptions(given, methods);
  const { protocols, requestPathPrefix, cors } = options;
  const rest =
    more === undefined || protocols.includes("rest")
      ? createRest(implementations, options)
      : // A rule that selects no RPC is an error.
        createRest([], { ...options, rules: [] });
  const rpcs = protocols.some((protocol) => protocol !== "rest")
    ? more?.add(rest.match, implementations, options)
    : undefined;
  const prefixed = (match: Gateway["match"]): Gateway["match"] =>
    requestPathPrefix === "" ? match : withPrefix(match, requestPathPrefix);
  const match = prefixed(rpcs?.match ?? rest.match);
  const createProtocolCors = (of: readonly DescMethod[], headers?: CorsHeaders): Cors | undefined =>
    cors && createCors(cors, of, (httpMethod, target) => match(httpMethod, target).method, headers);
  const restCors = createProtocolCors([...new Set(rest.routes.map(({ method }) => method))]);
  const matchWithCors =
    restCors === undefined
      ? match
      : withCors(
          match,
          { rest: restCors, rpc: (rpcs && createProtocolCors(methods, rpcs.corsHeaders)) ?? restCors },
          options.reportError,
        );
  return {
    routes: rest.routes,
    methods,
    match: matchWithCors,
    handle: (request) => matchWithCors(request.httpMethod, request.target, request.headers).respond(request),
  };
}

/** The services of gRPC have no google.api.http rules. */
function checkStandardServices({ protocols, health = false, reflection = false }: GatewayOptions): void {
  if (protocols?.every((protocol) => protocol === "rest") === true && (health !== false || reflection)) {
    const name = health === false ? "reflection" : "health";
    throw new Error(
      `the option ${name} is for a service of gRPC, which has no REST routes: the option protocols must have "grpc", "grpc-web" or "connect" too`,
    );
  }
}

/** Matches the paths below a prefix, such as `/api`. */
function withPrefix(match: Gateway["match"], prefix: string): Gateway["match"] {
  return (httpMethod, target, headers) =>
    // No route matches an empty path.
    match(httpMethod, target.startsWith(`${prefix}/`) ? target.slice(prefix.length) : "", headers);
}

/** Adds the CORS headers to all responses. If the function `origins` throws, pages of the origin can't read the response. */
function withCors(
  match: Gateway["match"],
  cors: Record<GatewayMatch["kind"], Cors>,
  reportError: ReportError,
): Gateway["match"] {
  return (httpMethod, target, headers) => {
    const found = match(httpMethod, target, headers);
    return {
      ...found,
      async respond(request) {
        const response = await found.respond(request);
        try {
          cors[found.kind](request, response);
        } catch (cause) {
          reportError(new Error("the function of the option cors.origins must not throw", { cause }));
        }
        return response;
      },
    };
  };
}

/** RPCs are routed first, by their exact path, which is percent-decoded if necessary. */
const addRpcs: RpcProtocols["add"] = (rest, implementations, options) => {
  const openStreamsOf = createOpenStreamsOf();
  const matches = new Map(
    implementations.map((implementation) => {
      const { method } = implementation;
      const { serve, allowedMethods } = createRpcHandler(implementation, options, openStreamsOf);
      const respond = options.cors === undefined ? serve : withPreflight(serve, allowedMethods);
      return [`/${method.parent.typeName}/${method.name}`, createRpcMatch(method, respond)];
    }),
  );
  const unknown: GatewayMatch = { ...createRpcMatch(undefined, rejectUnknownRpc), isKnownPath: false };
  const match: Gateway["match"] = (httpMethod, target, headers = {}) => {
    const path = pathOf(target);
    const rpc = matches.get(decodePath(path) ?? "");
    if (rpc !== undefined) {
      return rpc;
    }
    const found = rest(httpMethod, target);
    return !found.isKnownPath && isRpcRequest(path, headers) ? unknown : found;
  };
  return { match, corsHeaders: connectCors };
};

const rpcProtocols: RpcProtocols = { services: standardServices, add: addRpcs };

/** Responds to OPTIONS, which is no method of an RPC without a CORS policy. */
function withPreflight(serve: RpcHandler["serve"], allowedMethods: readonly string[]): RpcHandler["serve"] {
  return (request) =>
    request.httpMethod === "OPTIONS"
      ? { status: 204, headers: { allow: allowedMethods.join(", ") }, body: undefined }
      : serve(request);
}

function createRpcMatch(method: DescMethod | undefined, respond: RpcHandler["serve"]): GatewayMatch {
  return { kind: "rpc", method, template: undefined, isKnownPath: true, isFixed: true, respond };
}
