import type { DescMethod } from "@bufbuild/protobuf";
import type { Transcoder, TranscodingMatch } from "@flowgate/transcoding";
import { refuseUnknownRpc } from "./refuse-rpc.ts";
import type { RequestContext, Route } from "./request-context.ts";
import { errorResponse } from "../error-response.ts";

export type RouterOptions = {
  /** RPCs and endpoints, by path. */
  readonly routes: ReadonlyMap<string, Route>;
  readonly transcoder: Transcoder;
  /** Of the methods that are served under load, too. */
  readonly exempt: ReadonlySet<DescMethod>;
};

/** Finds the route of a request: by its exact path, and else by the transcoder's templates. Never throws. */
export function createRouter({ routes, transcoder, exempt }: RouterOptions): (request: RequestContext) => Route {
  const isValidHost = createHostValidator();
  /** By HTTP method, of which a client can send any, and path. */
  const fixed = new Map(
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"].map((method) => [method, new Map<string, Route>()]),
  );
  return (request) => {
    const { path, httpMethod } = request;
    const seen = fixed.get(httpMethod)?.get(path);
    if (seen !== undefined) {
      return seen;
    }
    const plain = /[%#]/.test(path) ? decode(path) : path;
    if (plain === undefined) {
      return malformed;
    }
    const exact = routes.get(plain);
    if (exact !== undefined) {
      return exact.kind === "rpc" && !isValidHost(request.host) ? invalidHost : exact;
    }
    const match = transcoder.match(httpMethod, request.target);
    if (!match.isKnownPath && isRpcRequest(request)) {
      return unknownRpc;
    }
    const route = createRestRoute(match, exempt);
    // No more than there are templates without variables; another spelling of such a path is matched each time.
    if (match.isFixed && path === match.template) {
      fixed.get(httpMethod)?.set(path, route);
    }
    return route;
  };
}

function createRestRoute(match: TranscodingMatch, exempt: RouterOptions["exempt"]): Route {
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

/** Whether a URL can be made with this authority. Most clients use one, so the last verdict is worth keeping. */
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

const unknownRpc: Route = { kind: "rpc", method: undefined, isExempt: false, serve: refuseUnknownRpc };

/** A path of an RPC, with what only clients of its protocols send. */
function isRpcRequest({ path, headers }: RequestContext): boolean {
  const { "content-type": type = "", "connect-protocol-version": version } = headers;
  return (
    /^\/[\w.]+\/\w+$/.test(path) && (version !== undefined || /^application\/(?:grpc|connect\+|proto\b)/i.test(type))
  );
}

/** Without a fragment, which has no place in a request; undefined if it is badly encoded. */
function decode(path: string): string | undefined {
  const [withoutFragment = ""] = path.split("#", 1);
  try {
    return decodeURIComponent(withoutFragment);
  } catch {
    return undefined;
  }
}

const malformed = createRefusal(400, "the request is malformed");

const invalidHost = createRefusal(400, "the Host header or the request target is no valid part of a URL");

function createRefusal(status: number, message: string): Route {
  return { kind: "endpoint", method: undefined, isExempt: false, serve: () => errorResponse(status, message) };
}
