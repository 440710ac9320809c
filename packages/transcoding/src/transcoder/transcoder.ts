import type { DescMethod } from "@bufbuild/protobuf";
import type { TranscodingResponse } from "../http/response.ts";
import type { Route } from "../routing/route.ts";
import { methodError, compileRoutes } from "../routing/routes.ts";
import { createCompressor } from "../response/compression.ts";
import { createCors, type CorsOptions, type FindMethod } from "../http/cors.ts";
import { createErrorResponder } from "../errors/responder.ts";
import { RequestError } from "../http/request-error.ts";
import { collectImplementations, type Implementation, type StreamImplementation } from "../call/implementations.ts";
import { createRouter } from "../routing/router.ts";
import { createOperation, type Operation, type OperationOptions } from "./operation.ts";
import { completeOptions, type TranscoderOptions } from "./options.ts";
import { createReachableRegistry } from "../schema/registry.ts";
import type { TranscodingRequest } from "../http/request.ts";
import { formatTemplate } from "../routing/template.ts";
import { createStreamOperation } from "./stream-operation.ts";

/** Where a request leads, before anything of it is read. */
export type TranscodingMatch = {
  /** The RPC; undefined where the path is none of any RPC, or the HTTP method is not allowed on it. */
  readonly method: DescMethod | undefined;
  /** The URL template that matches. */
  readonly template: string | undefined;
  /** Whether any template matches the path, whatever the HTTP method. */
  readonly isKnownPath: boolean;
  /** The path has no variables: all requests of this path and HTTP method have this match. */
  readonly isFixed: boolean;
  /** Never throws, and never rejects. Returns a promise only if something has to be waited for. */
  readonly answer: (request: TranscodingRequest) => TranscodingResponse | Promise<TranscodingResponse>;
};

export type Transcoder = {
  /** Never throws, and never rejects. Returns a promise only if something has to be waited for. */
  readonly handle: (request: TranscodingRequest) => TranscodingResponse | Promise<TranscodingResponse>;
  /** Routes a request without answering it. `target` is the raw request target. */
  match(httpMethod: string, target: string): TranscodingMatch;
  /** What is served: each pattern of each RPC. */
  readonly routes: readonly Route[];
};

/**
 * Compiles all google.api.http rules of the registered services. Throws where a rule is wrong, or not
 * supported: at start-up, never on a request.
 */
export function createTranscoder(given: TranscoderOptions): Transcoder {
  const implementations = collectImplementations(given.routes);
  const methods = implementations.map(({ method }) => method);
  const options = completeOptions(given, methods);
  const routes = compileRoutes(methods, options);
  const reachable = createReachableRegistry(methods);
  const errorResponder = createErrorResponder(options.errors, options.registry);
  const operationOptions: OperationOptions = {
    ...options,
    errorResponder,
    compressor: options.compression === undefined ? undefined : createCompressor(options.compression),
    findMessage: (name) => reachable.getMessage(name),
  };
  const router = createRouter(
    routes.map((route) => {
      const implementation = implementations.find(({ method }) => isSameRpc(method, route.method));
      return {
        httpMethod: route.httpMethod,
        template: route.template,
        name: route.method.toString(),
        value: createMatches(
          // As it was registered, without what rules in code have changed.
          implementation?.method ?? route.method,
          formatTemplate(route.template),
          compileOperation(implementation, route, operationOptions),
        ),
      };
    }),
  );

  /** What OPTIONS and 405 say: the methods of every template that matches; undefined where none does. */
  const allowOf = (path: string): string | undefined => {
    const methods = router.methodsOf(path);
    return methods.size === 0
      ? undefined
      : [...methods.union(new Set(methods.has("GET") ? ["HEAD", "OPTIONS"] : ["OPTIONS"]))].join(", ");
  };

  const ofFault = (fault: RequestError, isKnownPath: boolean): TranscodingMatch => ({
    method: undefined,
    template: undefined,
    isKnownPath,
    isFixed: false,
    answer: () => errorResponder.ofFault(fault),
  });

  const match = (httpMethod: string, target: string): TranscodingMatch => {
    const path = pathOf(target);
    const found = router.find(httpMethod, path);
    if (found instanceof RequestError) {
      return ofFault(found, true);
    }
    if (found !== undefined) {
      return found.value(httpMethod, found.pathVariables);
    }
    const allow = allowOf(path);
    if (allow === undefined) {
      return ofFault(new RequestError(404, "not_found", "no operation has this path"), false);
    }
    return httpMethod === "OPTIONS"
      ? {
          method: undefined,
          template: undefined,
          isKnownPath: true,
          isFixed: false,
          answer: () => ({ status: 204, headers: { allow }, body: undefined }),
        }
      : ofFault(new RequestError(405, "method_not_allowed", `this path allows ${allow}`, { headers: { allow } }), true);
  };

  const transcoder: Transcoder = {
    routes,
    match,
    handle: (request) => match(request.httpMethod, request.target).answer(request),
  };
  return options.cors === undefined
    ? transcoder
    : withCors(transcoder, options.cors, (httpMethod, target) => match(httpMethod, target).method);
}

/** Rules in code may have changed a binding's options, and so its descriptor; not what it describes. */
function isSameRpc(one: DescMethod, other: DescMethod): boolean {
  return one.parent === other.parent && one.name === other.name;
}

function withCors(transcoder: Transcoder, options: CorsOptions, find: FindMethod): Transcoder {
  const methods = new Set(transcoder.routes.map(({ method }) => method));
  const cors = createCors(options, methods, find);
  const answered = async (request: TranscodingRequest, handle: Handle): Promise<TranscodingResponse> => {
    const answer = await handle(request);
    cors(request, answer);
    return answer;
  };
  return {
    routes: transcoder.routes,
    handle: (request) => answered(request, transcoder.handle),
    match(httpMethod, target) {
      const match = transcoder.match(httpMethod, target);
      return { ...match, answer: (request) => answered(request, match.answer) };
    },
  };
}

function compileOperation(
  implementation: Implementation | StreamImplementation | undefined,
  route: Route,
  options: OperationOptions,
): Operation {
  try {
    if (implementation === undefined) {
      throw new Error("nothing implements it");
    }
    return implementation.kind === "unary"
      ? createOperation(implementation, route, options)
      : createStreamOperation(implementation, route, options);
  } catch (cause) {
    throw methodError(route.method, cause);
  }
}

/** A target without its query; one in absolute form (RFC 9112, section 3.2.2) without scheme and authority too. */
function pathOf(target: string): string {
  const [, rest] = target.startsWith("/") ? [] : (/^https?:\/\/[^/?]*(.*)$/is.exec(target) ?? []);
  const local = rest === undefined ? target : rest.startsWith("/") ? rest : `/${rest}`;
  const question = local.indexOf("?");
  return question === -1 ? local : local.slice(0, question);
}

type Handle = TranscodingMatch["answer"];

/** Makes the matches of one operation; without variables, they are always the same two. */
function createMatches(
  method: DescMethod,
  template: string,
  operation: Operation,
): (httpMethod: string, pathVariables: readonly string[]) => TranscodingMatch {
  const match = (pathVariables: readonly string[], answer: Handle): TranscodingMatch => ({
    method,
    template,
    isKnownPath: true,
    isFixed: pathVariables.length === 0,
    answer,
  });
  const plain = (pathVariables: readonly string[]) =>
    match(pathVariables, (request) => operation.run(request, pathVariables));
  const head = (pathVariables: readonly string[]) =>
    match(pathVariables, (request) => {
      const answered = operation.run(request, pathVariables);
      return answered instanceof Promise ? answered.then(withoutBody) : withoutBody(answered);
    });
  const fixed = { plain: plain([]), head: head([]) };
  return (httpMethod, pathVariables) => {
    if (pathVariables.length === 0) {
      return httpMethod === "HEAD" ? fixed.head : fixed.plain;
    }
    return httpMethod === "HEAD" ? head(pathVariables) : plain(pathVariables);
  };
}

/** An answer to HEAD has the headers of GET, Content-Length included (RFC 9110, section 9.3.2). */
function withoutBody({ status, headers, body }: TranscodingResponse): TranscodingResponse {
  if (typeof body === "string" || Buffer.isBuffer(body)) {
    return { status, headers: { ...headers, "content-length": String(Buffer.byteLength(body)) }, body: undefined };
  }
  // Nobody will read the stream: whoever makes it is told so.
  body?.[Symbol.asyncIterator]()
    .return?.()
    .catch(() => undefined);
  return { status, headers, body: undefined };
}
