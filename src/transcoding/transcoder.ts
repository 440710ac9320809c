import type { DescMethod } from "@bufbuild/protobuf";
import type { Answer } from "./answer.ts";
import type { Binding } from "./binding.ts";
import { cannotServe, compileBindings } from "./bindings.ts";
import { createCompressor } from "./compression.ts";
import { createCors, type CorsOptions, type FindMethod } from "./cors.ts";
import { createErrorAnswers } from "./error.ts";
import { Fault } from "./fault.ts";
import { collectImplementations, type Implementation, type StreamImplementation } from "./implementations.ts";
import { createMatcher } from "./matcher.ts";
import { createOperation, type Operation, type OperationOptions } from "./operation.ts";
import { completeOptions, type TranscoderOptions } from "./options.ts";
import { createReachableRegistry } from "./registry.ts";
import type { TranscodingRequest } from "./request.ts";
import { createStreamOperation } from "./stream-operation.ts";

export type Transcoder = {
  /** Never throws, and never rejects. What need not wait may be there at once. */
  handle(request: TranscodingRequest): Answer | Promise<Answer>;
  /** What is served: each pattern of each RPC. */
  readonly bindings: readonly Binding[];
};

/**
 * Compiles all google.api.http rules of the registered services. Throws where a rule is wrong, or not
 * supported: at start-up, never on a request.
 */
export function createTranscoder(given: TranscoderOptions): Transcoder {
  const implementations = collectImplementations(given.routes);
  const methods = implementations.map(({ method }) => method);
  const options = completeOptions(given, methods);
  const bindings = compileBindings(methods, options);
  const reachable = createReachableRegistry(methods);
  const errorAnswers = createErrorAnswers(options.errors, options.registry);
  const operationOptions: OperationOptions = {
    ...options,
    errorAnswers,
    compressor: options.compression === undefined ? undefined : createCompressor(options.compression),
    findMessage: (name) => reachable.getMessage(name),
  };
  const matcher = createMatcher(
    bindings.map((binding) => ({
      httpMethod: binding.httpMethod,
      template: binding.template,
      name: binding.method.toString(),
      value: {
        binding,
        operation: compileOperation(
          implementations.find(({ method }) => isSameRpc(method, binding.method)),
          binding,
          operationOptions,
        ),
      },
    })),
  );

  /** What OPTIONS and 405 say: the methods of every template that matches; undefined where none does. */
  const allowOf = (path: string): string | undefined => {
    const methods = matcher.methodsOf(path);
    return methods.size === 0
      ? undefined
      : [...methods.union(new Set(methods.has("GET") ? ["HEAD", "OPTIONS"] : ["OPTIONS"]))].join(", ");
  };

  const handle = (request: TranscodingRequest): Answer | Promise<Answer> => {
    const path = pathOf(request.target);
    const match = matcher.find(request.httpMethod, path);
    if (match instanceof Fault) {
      return errorAnswers.ofFault(match);
    }
    if (match !== undefined) {
      const answered = match.value.operation.run(request, match.captures);
      if (request.httpMethod !== "HEAD") {
        return answered;
      }
      return answered instanceof Promise ? answered.then(withoutBody) : withoutBody(answered);
    }
    const allow = allowOf(path);
    if (allow === undefined) {
      return errorAnswers.ofFault(new Fault(404, "not_found", "no operation has this path"));
    }
    return request.httpMethod === "OPTIONS"
      ? { status: 204, headers: { allow }, body: undefined }
      : errorAnswers.ofFault(new Fault(405, "method_not_allowed", `this path allows ${allow}`, { headers: { allow } }));
  };

  const transcoder: Transcoder = { bindings, handle };
  return options.cors === undefined
    ? transcoder
    : withCors(transcoder, options.cors, (httpMethod, target) => {
        const match = matcher.find(httpMethod, pathOf(target));
        return match === undefined || match instanceof Fault ? undefined : match.value.binding.method;
      });
}

/** Rules in code may have changed a binding's options, and so its descriptor; not what it describes. */
function isSameRpc(one: DescMethod, other: DescMethod): boolean {
  return one.parent === other.parent && one.name === other.name;
}

function withCors(transcoder: Transcoder, options: CorsOptions, find: FindMethod): Transcoder {
  const methods = new Set(transcoder.bindings.map(({ method }) => method));
  const cors = createCors(options, methods, find);
  return {
    ...transcoder,
    async handle(request) {
      const answer = await transcoder.handle(request);
      cors(request, answer);
      return answer;
    },
  };
}

function compileOperation(
  implementation: Implementation | StreamImplementation | undefined,
  binding: Binding,
  options: OperationOptions,
): Operation {
  try {
    if (implementation === undefined) {
      throw new Error("nothing implements it");
    }
    return implementation.kind === "unary"
      ? createOperation(implementation, binding, options)
      : createStreamOperation(implementation, binding, options);
  } catch (cause) {
    throw cannotServe(binding.method, cause);
  }
}

/** A target without its query; one in absolute form (RFC 9112, section 3.2.2) without scheme and authority too. */
function pathOf(target: string): string {
  const [, rest] = target.startsWith("/") ? [] : (/^https?:\/\/[^/?]*(.*)$/is.exec(target) ?? []);
  const local = rest === undefined ? target : rest.startsWith("/") ? rest : `/${rest}`;
  const question = local.indexOf("?");
  return question === -1 ? local : local.slice(0, question);
}

/** An answer to HEAD has the headers of GET, Content-Length included (RFC 9110, section 9.3.2). */
function withoutBody({ status, headers, body }: Answer): Answer {
  if (typeof body === "string" || Buffer.isBuffer(body)) {
    return { status, headers: { ...headers, "content-length": String(Buffer.byteLength(body)) }, body: undefined };
  }
  // Nobody will read the stream: whoever makes it is told so.
  body?.[Symbol.asyncIterator]()
    .return?.()
    .catch(() => undefined);
  return { status, headers, body: undefined };
}
