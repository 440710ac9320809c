import type { DescMethod } from "@bufbuild/protobuf";
import type { Transcoder, GatewayMatch } from "@flowgate/gateway";
import { rejectUnknownRpc } from "./reject-rpc.ts";
import type { RequestContext, Route } from "./request-context.ts";
import { errorResponse } from "../errors/error-response.ts";

export type RouterOptions = {
  /** RPCs and endpoints, by path. */
  readonly routes: ReadonlyMap<string, Route>;
  readonly transcoder: Transcoder;
  /** Methods exempt from load shedding. */
  readonly exempt: ReadonlySet<DescMethod>;
};

/** Finds the route of a request: by exact path first, then by the transcoder's URL templates. Never throws. */
export function createRouter({ routes, transcoder, exempt }: RouterOptions): (request: RequestContext) => Route {
  const isValidHost = createHostValidator();
  /** Cache of REST routes without variables, by HTTP method and path. Limited to these methods, as clients can send any. */
  const cache = new Map(
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"].map((method) => [method, new Map<string, Route>()]),
  );
  return (request) => {
    const { path, httpMethod } = request;
    const cached = cache.get(httpMethod)?.get(path);
    if (cached !== undefined) {
      return cached;
    }
    const decoded = /[%#]/.test(path) ? decode(path) : path;
    if (decoded === undefined) {
      return malformed;
    }
    const exact = routes.get(decoded);
    if (exact !== undefined) {
      return exact.kind === "rpc" && !isValidHost(request.host) ? invalidHost : exact;
    }
    const match = transcoder.match(httpMethod, request.target);
    if (!match.isKnownPath && isRpcRequest(request)) {
      return unknownRpc;
    }
    const route = createRestRoute(match, exempt);
    // Bounded by the number of templates without variables, since other spellings of a path are not cached.
    if (match.isFixed && path === match.template) {
      cache.get(httpMethod)?.set(path, route);
    }
    return route;
  };
}

function createRestRoute(match: GatewayMatch, exempt: RouterOptions["exempt"]): Route {
  const { method, template, respond } = match;
  return {
    kind: "rest",
    method,
    template,
    isExempt: method !== undefined && exempt.has(method),
    serve(request) {
      if (method !== undefined) {
        request.begin(method);
      }
      return respond(request);
    },
  };
}

/** Whether an authority can be part of a URL. Caches the last result, since most requests have the same one. */
function createHostValidator(): (host: string) => boolean {
  let last: string | undefined;
  let isValid = false;
  return (host) => {
    if (host !== last) {
      isValid = host !== "" && URL.canParse(`http://${host}`);
      last = host;
    }
    return isValid;
  };
}

const unknownRpc: Route = { kind: "rpc", method: undefined, isExempt: false, serve: rejectUnknownRpc };

/** Whether the path has the form of an RPC's and the headers are those of an RPC client. */
function isRpcRequest({ path, headers }: RequestContext): boolean {
  const { "content-type": type = "", "connect-protocol-version": version } = headers;
  return (
    /^\/[\w.]+\/\w+$/.test(path) && (version !== undefined || /^application\/(?:grpc|connect\+|proto\b)/i.test(type))
  );
}

/** Percent-decodes a path and removes a fragment, which is invalid in a request target. undefined: invalid encoding. */
function decode(path: string): string | undefined {
  const [withoutFragment = ""] = path.split("#", 1);
  try {
    return decodeURIComponent(withoutFragment);
  } catch {
    return undefined;
  }
}

const malformed = createErrorRoute(400, "the path is not valid percent-encoding: encode % as %25");

const invalidHost = createErrorRoute(400, "the Host header or the request target is not valid in a URL");

function createErrorRoute(status: number, message: string): Route {
  return { kind: "endpoint", method: undefined, isExempt: false, serve: () => errorResponse(status, message) };
}
