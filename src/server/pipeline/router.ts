import type { DescMethod } from "@bufbuild/protobuf";
import type { Gateway, GatewayMatch, GatewayResponse } from "@flowgate/gateway";
import { decodePath } from "@flowgate/gateway/server";
import { errorResponse } from "../http/error-response.ts";
import type { RequestContext, RequestRoute } from "./request-context.ts";

export type RouterOptions = {
  /** Endpoints that are no RPCs, by path. One that ends with a slash, such as `/docs/`, has all paths below it. */
  readonly endpoints: ReadonlyMap<string, RequestRoute>;
  readonly gateway: Gateway;
  /** Methods exempt from load shedding. */
  readonly exempt: ReadonlySet<DescMethod>;
};

/** Finds the route of a request: an endpoint by its path first, then by the gateway. Never throws. */
export function createRouter({ endpoints, gateway, exempt }: RouterOptions): (request: RequestContext) => RequestRoute {
  const isValidHost = createHostValidator();
  /** Cache of the routes without variables, by HTTP method and path. Limited to these methods, as clients can send any. */
  const cache = new Map(
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"].map((method) => [method, new Map<string, RequestRoute>()]),
  );
  const find = (request: RequestContext): RequestRoute => {
    const { path, httpMethod } = request;
    const decoded = decodePath(path);
    if (decoded === undefined) {
      return malformed;
    }
    const endpoint = endpoints.get(decoded) ?? endpoints.get(firstFolderOf(decoded));
    if (endpoint !== undefined) {
      return endpoint;
    }
    const match = gateway.match(httpMethod, request.target, request.headers);
    const route = createRoute(match, exempt);
    // Bounded by the number of RPCs and of templates without variables, since other spellings of a path are not cached.
    if (match.isFixed && path === pathOf(match)) {
      cache.get(httpMethod)?.set(path, route);
    }
    return route;
  };
  return (request) => {
    const route = cache.get(request.httpMethod)?.get(request.path) ?? find(request);
    return route.kind === "rpc" && route.method !== undefined && !isValidHost(request.host) ? invalidHost : route;
  };
}

function createRoute({ kind, method, template, respond }: GatewayMatch, exempt: RouterOptions["exempt"]): RequestRoute {
  return { kind, method, template, isExempt: method !== undefined && exempt.has(method), serve: respond };
}

/** The first segment of a path with its slashes; empty if it has one segment. */
export function firstFolderOf(path: string): string {
  return path.slice(0, path.indexOf("/", 1) + 1);
}

function pathOf({ kind, method, template }: GatewayMatch): string | undefined {
  return kind === "rpc" ? method && `/${method.parent.typeName}/${method.name}` : template;
}

/** True if an authority can be part of a URL. Caches the last result, since most requests have the same one. */
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

const malformed = createErrorRoute(400, "the path is not valid percent-encoding: encode % as %25");

const invalidHost = createErrorRoute(400, "the Host header or the request target is not valid in a URL");

function createErrorRoute(status: number, message: string): RequestRoute {
  return { kind: "endpoint", method: undefined, isExempt: false, serve: () => errorResponse(status, message) };
}

/** Returns the response; for HEAD its body is not sent. */
export type EndpointHandler = (request: RequestContext) => GatewayResponse | Promise<GatewayResponse>;

/** A route that supports GET and HEAD, or these methods. `isExempt`: exempt from load shedding. */
export function createEndpoint(
  path: string,
  isExempt: boolean,
  serve: EndpointHandler,
  methods: readonly string[] = ["GET", "HEAD"],
): [string, RequestRoute] {
  // HEAD is a GET without a body.
  const supported = methods.filter((method) => method !== "HEAD").join(", ");
  return [
    path,
    {
      kind: "endpoint",
      method: undefined,
      isExempt,
      serve: (request) =>
        methods.includes(request.httpMethod)
          ? serve(request)
          : errorResponse(405, `${request.path} supports only ${supported}`, {
              headers: { allow: methods.join(", ") },
            }),
    },
  ];
}
