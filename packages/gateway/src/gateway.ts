import type { DescMethod } from "@bufbuild/protobuf";
import { cors as connectCors } from "@connectrpc/connect";
import { collectImplementations, type Implementation, type StreamImplementation } from "./call/implementations.ts";
import { createOpenStreams } from "./call/shutdown.ts";
import { createCors, type CorsOptions, type FindMethod } from "./http/cors.ts";
import type { RequestHeaders } from "./http/request-headers.ts";
import type { GatewayRequest } from "./http/request.ts";
import type { GatewayResponse } from "./http/response.ts";
import { checkOptions } from "./options/check-options.ts";
import { transcoderOptionChecks } from "./options/option-checks.ts";
import { completeOptions, type CompleteOptions, type TranscoderOptions } from "./options/options.ts";
import { createRest, type RestMatch } from "./protocols/rest/rest.ts";
import { createRpcHandler, type RpcHandler } from "./protocols/rpc/handlers.ts";
import { isRpcRequest, rejectUnknownRpc } from "./protocols/rpc/rejection.ts";
import type { Route } from "./routing/route.ts";

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
  /** The registered RPCs. */
  readonly methods: readonly DescMethod[];
  /** The REST routes. */
  readonly routes: readonly Route[];
};

/** Routes a request to an RPC by its path; undefined if no RPC has it. */
type MatchRpc = (path: string, headers: RequestHeaders) => GatewayMatch | undefined;

/** Compiles the RPC protocols. */
type CompileRpcs = (
  implementations: readonly (Implementation | StreamImplementation)[],
  options: CompleteOptions,
) => { readonly find: MatchRpc; readonly findUnknown: MatchRpc };

/**
 * Compiles the RPCs of the registered services for the protocols of the options. Throws an Error if an option or a google.api.http rule is
 * invalid or not supported.
 */
export function createGateway(options: TranscoderOptions): Gateway {
  return assemble(options, compileRpcs);
}

/** The same for REST alone, whatever `protocols` says: a bundle has no code of the other protocols then. */
export function createRestGateway(options: TranscoderOptions): Gateway {
  return assemble(options, undefined);
}

function assemble(given: TranscoderOptions, compile: CompileRpcs | undefined): Gateway {
  checkOptions(given, transcoderOptionChecks);
  const implementations = collectImplementations(given.routes);
  const methods = implementations.map(({ method }) => method);
  const options = completeOptions(given, methods);
  const { protocols } = options;
  const rest = createRest(protocols.includes("rest") ? implementations : [], options);
  const rpcs = protocols.some((protocol) => protocol !== "rest") ? compile?.(implementations, options) : undefined;
  const match: Gateway["match"] =
    rpcs === undefined
      ? rest.match
      : (httpMethod, target, headers = {}) => {
          const path = pathOf(target);
          const rpc = rpcs.find(path, headers);
          if (rpc !== undefined) {
            return rpc;
          }
          const found = rest.match(httpMethod, target);
          return found.isKnownPath ? found : (rpcs.findUnknown(path, headers) ?? found);
        };
  const gateway: Gateway = {
    routes: rest.routes,
    methods,
    match,
    handle: (request) => match(request.httpMethod, request.target, request.headers).respond(request),
  };
  return options.cors === undefined ? gateway : withCors(gateway, options.cors);
}

/** Adds the CORS headers to all responses, and responds to OPTIONS for the path of an RPC. */
function withCors({ match, ...gateway }: Gateway, options: CorsOptions): Gateway {
  const find: FindMethod = (httpMethod, target) => match(httpMethod, target).method;
  const cors = {
    rest: createCors(options, new Set(gateway.routes.map(({ method }) => method)), find),
    rpc: createCors(options, gateway.methods, find, connectCors),
  };
  const matchWithCors: Gateway["match"] = (httpMethod, target, headers) => {
    const found = match(httpMethod, target, headers);
    return {
      ...found,
      async respond(request) {
        const response = await found.respond(request);
        const { allow } = response.headers;
        const isOptions = found.kind === "rpc" && httpMethod === "OPTIONS" && allow !== undefined;
        const result: GatewayResponse = isOptions ? { status: 204, headers: { allow }, body: undefined } : response;
        cors[found.kind](request, result);
        return result;
      },
    };
  };
  return {
    ...gateway,
    match: matchWithCors,
    handle: (request) => matchWithCors(request.httpMethod, request.target, request.headers).respond(request),
  };
}

/** Routes by the exact path, which is percent-decoded if necessary. */
function compileRpcs(
  implementations: readonly (Implementation | StreamImplementation)[],
  options: CompleteOptions,
): { readonly find: MatchRpc; readonly findUnknown: MatchRpc } {
  const openStreams = createOpenStreams(options.shutdownSignal);
  const matches = new Map(
    implementations.map((implementation) => {
      const { method } = implementation;
      const { serve } = createRpcHandler(implementation, options, openStreams);
      return [`/${method.parent.typeName}/${method.name}`, createRpcMatch(method, serve)];
    }),
  );
  const unknown: GatewayMatch = { ...createRpcMatch(undefined, rejectUnknownRpc), isKnownPath: false };
  return {
    find: (path) => matches.get(path) ?? (/[%#]/.test(path) ? matches.get(decode(path)) : undefined),
    findUnknown: (path, headers) => (isRpcRequest(path, headers) ? unknown : undefined),
  };
}

function createRpcMatch(method: DescMethod | undefined, respond: RpcHandler["serve"]): GatewayMatch {
  return { kind: "rpc", method, template: undefined, isKnownPath: true, isFixed: true, respond };
}

/** Percent-decodes a path and removes a fragment, which is invalid in a request target. Empty if the encoding is invalid. */
function decode(path: string): string {
  const [withoutFragment = ""] = path.split("#", 1);
  try {
    return decodeURIComponent(withoutFragment);
  } catch {
    return "";
  }
}

function pathOf(target: string): string {
  const question = target.indexOf("?");
  const path = question === -1 ? target : target.slice(0, question);
  // The absolute form (RFC 9112, section 3.2.2).
  return path.startsWith("/") ? path : path.replace(/^https?:\/\/[^/#]*/i, "");
}
