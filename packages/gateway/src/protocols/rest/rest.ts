import type { DescMethod } from "@bufbuild/protobuf";
import { utf8Length } from "#platform/bytes";
import type { GatewayResponse } from "../../http/response.ts";
import type { Route } from "../../routing/route.ts";
import { methodError, compileRoutes } from "../../routing/routes.ts";
import { createCompressor } from "./response/compressor.ts";
import { createOpenStreamsOf } from "../../call/shutdown.ts";
import { createErrorResponder } from "../../errors/responder.ts";
import { RequestError } from "../../http/request-error.ts";
import type { Implementation, StreamImplementation } from "../../call/implementations.ts";
import { createRouter } from "../../routing/router.ts";
import { createOperation, type ServedOperation, type OperationOptions } from "./operation.ts";
import { type CompleteGatewayOptions, forRegistration } from "../../options/options.ts";
import { createReachableRegistry } from "../../schema/registry.ts";
import type { GatewayRequest } from "../../http/request.ts";
import { formatTemplate } from "../../routing/template.ts";
import { createStreamOperation } from "./stream-operation.ts";

export type RestMatch = {
  readonly kind: "rest";
  /** The RPC method; undefined if no route matches the path and the HTTP method. */
  readonly method: DescMethod | undefined;
  /** The path template of the route. */
  readonly template: string | undefined;
  /** True if a template matches the path, for any HTTP method. */
  readonly isKnownPath: boolean;
  /** True if the path has no variables, so that the match can be cached for the path and HTTP method. */
  readonly isFixed: boolean;
  /** Responds to the request. Never throws or rejects. Returns a promise only if something has to be awaited. */
  readonly respond: (request: GatewayRequest) => GatewayResponse | Promise<GatewayResponse>;
};

export type Rest = {
  /** Routes a request without responding to it. `target` is the request target as it was sent. */
  readonly match: (httpMethod: string, target: string) => RestMatch;
  readonly routes: readonly Route[];
};

/** Compiles the google.api.http rules. Throws an Error if a rule is invalid or not supported. */
export function createRest(
  implementations: readonly (Implementation | StreamImplementation)[],
  options: CompleteGatewayOptions,
): Rest {
  const methods = implementations.map(({ method }) => method);
  const routes = compileRoutes(methods, options);
  const reachable = createReachableRegistry(methods);
  const errorResponder = createErrorResponder(options);
  const operationOptions: OperationOptions = {
    ...options,
    errorResponder,
    compressor: options.compression === undefined ? undefined : createCompressor(options.compression),
    findMessage: (name) => reachable.getMessage(name),
    openStreamsOf: createOpenStreamsOf(),
  };
  const router = createRouter(
    routes.map((route) => {
      const implementation = implementations.find(({ method }) => isSameRpc(method, route.method));
      return {
        httpMethod: route.httpMethod,
        template: route.template,
        name: route.method.toString(),
        value: createMatches(
          // The method as registered, not the copy with the options of an external rule.
          implementation?.method ?? route.method,
          formatTemplate(route.template),
          compileOperation(implementation, route, operationOptions),
        ),
      };
    }),
  );

  /** The Allow header for OPTIONS and 405: the methods of all templates that match; undefined if none does. */
  const allowOf = (path: string): string | undefined => {
    const httpMethods = router.methodsOf(path);
    return httpMethods.size === 0
      ? undefined
      : [...httpMethods.union(new Set(httpMethods.has("GET") ? ["HEAD", "OPTIONS"] : ["OPTIONS"]))].join(", ");
  };

  const createErrorMatch = (error: RequestError, isKnownPath: boolean): RestMatch => ({
    kind: "rest",
    method: undefined,
    template: undefined,
    isKnownPath,
    isFixed: false,
    respond: () => errorResponder.respondToRequestError(error),
  });

  const match = (httpMethod: string, target: string): RestMatch => {
    const sent = pathOf(target);
    const path = options.ignoreTrailingSlash && sent.length > 1 && sent.endsWith("/") ? sent.slice(0, -1) : sent;
    const found = router.find(httpMethod, path);
    if (found instanceof RequestError) {
      return createErrorMatch(found, true);
    }
    if (found !== undefined) {
      return found.value(httpMethod, found.pathVariables);
    }
    const allow = allowOf(path);
    if (allow === undefined) {
      return createErrorMatch(new RequestError(404, "not_found", "no operation has this path"), false);
    }
    return httpMethod === "OPTIONS"
      ? {
          kind: "rest",
          method: undefined,
          template: undefined,
          isKnownPath: true,
          isFixed: false,
          respond: () => ({ status: 204, headers: { allow }, body: undefined }),
        }
      : createErrorMatch(
          new RequestError(405, "method_not_allowed", `this path allows ${allow}`, { headers: { allow } }),
          true,
        );
  };

  return { routes, match };
}

/** Compares by service and name, since an external rule can replace a method by a copy with other options. */
function isSameRpc(one: DescMethod, other: DescMethod): boolean {
  return one.parent === other.parent && one.name === other.name;
}

function compileOperation(
  implementation: Implementation | StreamImplementation | undefined,
  route: Route,
  options: OperationOptions,
): ServedOperation {
  try {
    if (implementation === undefined) {
      throw new Error("it has no implementation");
    }
    const own = forRegistration(options, implementation.options);
    return implementation.kind === "unary"
      ? createOperation(implementation, route, own)
      : createStreamOperation(implementation, route, own);
  } catch (cause) {
    throw methodError(route.method, cause);
  }
}

/** The path of a request target in origin form or absolute form (RFC 9112, section 3.2). */
export function pathOf(target: string): string {
  const local = target.startsWith("/") ? target : originFormOf(target);
  const questionMark = local.indexOf("?");
  return questionMark === -1 ? local : local.slice(0, questionMark);
}

function originFormOf(target: string): string {
  const [, rest = target] = /^https?:\/\/[^/?]*(.*)$/is.exec(target) ?? [];
  return rest === target || rest.startsWith("/") ? rest : `/${rest}`;
}

type Handle = RestMatch["respond"];

/** Compiles the matches of an operation. If the template has no variables, its two matches are created once. */
function createMatches(
  method: DescMethod,
  template: string,
  operation: ServedOperation,
): (httpMethod: string, pathVariables: readonly string[]) => RestMatch {
  const createMatch = (pathVariables: readonly string[], respond: Handle): RestMatch => ({
    kind: "rest",
    method,
    template,
    isKnownPath: true,
    isFixed: pathVariables.length === 0,
    respond,
  });
  const full = (pathVariables: readonly string[]) =>
    createMatch(pathVariables, (request) => operation.run(request, pathVariables));
  const head = (pathVariables: readonly string[]) =>
    createMatch(pathVariables, (request) => {
      const response = operation.run(request, pathVariables);
      return response instanceof Promise ? response.then(withoutBody) : withoutBody(response);
    });
  const fixed = { full: full([]), head: head([]) };
  return (httpMethod, pathVariables) => {
    if (pathVariables.length === 0) {
      return httpMethod === "HEAD" ? fixed.head : fixed.full;
    }
    return httpMethod === "HEAD" ? head(pathVariables) : full(pathVariables);
  };
}

/** The response to HEAD: the headers of GET, including Content-Length (RFC 9110, section 9.3.2), without the body. */
function withoutBody({ status, headers, body }: GatewayResponse): GatewayResponse {
  if (typeof body === "string" || body instanceof Uint8Array) {
    const length = typeof body === "string" ? utf8Length(body) : body.length;
    return { status, headers: { ...headers, "content-length": String(length) }, body: undefined };
  }
  // Releases the resources of a stream that will not be read.
  body?.[Symbol.asyncIterator]()
    .return?.()
    .catch(() => undefined);
  return { status, headers, body: undefined };
}
