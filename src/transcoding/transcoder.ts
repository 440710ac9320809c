import { createRegistry, type DescMethodUnary } from "@bufbuild/protobuf";
import type { ConnectRouter, HandlerContext, Interceptor } from "@connectrpc/connect";
import type { HttpRule } from "../../gen/google/api/http_pb.ts";
import type { Answer } from "./answer.ts";
import { plainError } from "./error.ts";
import { collectImplementations } from "./implementations.ts";
import { createOperation, type Operation } from "./operation.ts";
import type { TranscodingRequest } from "./request.ts";
import { httpRule } from "./rules.ts";

export type TranscoderOptions = {
  /** The function that registers services with Connect. RPCs with a google.api.http rule are served. */
  routes: (router: ConnectRouter) => unknown;
  /** As Connect's own: the last one is applied first. They see the same calls as over RPC. */
  interceptors?: Interceptor[];
  /** As Connect's own: runs before a request's body is read. Throw a ConnectError to refuse the call. */
  requestGate?: (context: HandlerContext) => void | Promise<void>;
  /** A longer body is answered 413. Default: 4 MiB. */
  maxBodyBytes?: number;
  /** A JSON body nested deeper is answered 400. Default: 100, what binary decoders take. */
  maxDepth?: number;
};

export type Transcoder = {
  /** Never rejects. */
  handle(request: TranscodingRequest): Promise<Answer>;
};

/**
 * Compiles all google.api.http rules of the registered services. Throws where a rule is wrong, or not
 * supported: at start-up, never on a request.
 */
export function createTranscoder(options: TranscoderOptions): Transcoder {
  const implementations = collectImplementations(options.routes);
  const registry = createRegistry(
    ...implementations.flatMap(({ method }) => [method.parent.file, ...method.parent.file.dependencies]),
  );
  const paths = new Map<string, Map<string, Operation>>();
  for (const implementation of implementations) {
    const { method } = implementation;
    try {
      const rule = requireRule(method);
      const { httpMethod, path } = patternOf(rule);
      const operations = paths.get(path) ?? new Map<string, Operation>();
      const rival = operations.get(httpMethod);
      if (rival !== undefined) {
        throw new Error(`${httpMethod} ${path} leads to ${rival.method.toString()} already`);
      }
      operations.set(
        httpMethod,
        createOperation(
          implementation,
          {
            interceptors: options.interceptors ?? [],
            requestGate: options.requestGate,
            maxBodyBytes: options.maxBodyBytes ?? 4 * 1024 * 1024,
            maxDepth: options.maxDepth ?? 100,
            body: rule.body,
            responseBody: rule.responseBody,
          },
          (name) => registry.getMessage(name),
        ),
      );
      paths.set(path, operations);
    } catch (cause) {
      throw new Error(`can't serve ${method.toString()} over HTTP: ${String(cause)}`, { cause });
    }
  }

  return {
    async handle(request) {
      const question = request.target.indexOf("?");
      const path = question === -1 ? request.target : request.target.slice(0, question);
      const operations = paths.get(path);
      if (operations === undefined) {
        return plainError(404, "not_found", "no operation has this path");
      }
      const operation = operations.get(request.httpMethod);
      if (operation !== undefined) {
        return operation.run(request);
      }
      const get = request.httpMethod === "HEAD" ? operations.get("GET") : undefined;
      if (get !== undefined) {
        return withoutBody(await get.run(request));
      }
      const allow = allowedMethods(operations);
      return request.httpMethod === "OPTIONS"
        ? { status: 204, headers: { allow }, body: undefined }
        : plainError(405, "method_not_allowed", `this path allows ${allow}`, { allow });
    },
  };
}

function requireRule(method: DescMethodUnary): HttpRule {
  const rule = httpRule(method);
  if (rule === undefined) {
    throw new Error("it has no google.api.http rule");
  }
  if (rule.additionalBindings.length > 0) {
    throw new Error("additional_bindings are not supported yet");
  }
  return rule;
}

function patternOf({ pattern }: HttpRule): { httpMethod: string; path: string } {
  if (pattern.case === undefined || pattern.case === "custom") {
    throw new Error("a rule without a pattern, or with a custom one, is not supported yet");
  }
  const path = pattern.value;
  if (!/^(?:\/[\w.~!$&'()+,;=@-]+)+$/.test(path)) {
    throw new Error(`the path "${path}": only literal segments are supported yet`);
  }
  return { httpMethod: pattern.case.toUpperCase(), path };
}

/** The union over all operations of a path, and what is answered for any path. */
function allowedMethods(operations: ReadonlyMap<string, Operation>): string {
  const methods = [...operations.keys()];
  return [...methods, ...(methods.includes("GET") ? ["HEAD"] : []), "OPTIONS"].join(", ");
}

/** An answer to HEAD has the headers of GET, Content-Length included (RFC 9110, section 9.3.2). */
function withoutBody({ status, headers, body }: Answer): Answer {
  return body === undefined
    ? { status, headers, body }
    : { status, headers: { ...headers, "content-length": String(Buffer.byteLength(body)) }, body: undefined };
}
