import { create, type DescMethod, type Registry } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type ConnectRouter, type Interceptor } from "@connectrpc/connect";
import type { Logger } from "pino";
import { ErrorInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";
import {
  collectImplementations,
  createInvoke,
  createStreamInvoke,
  RequestError,
  type Implementation,
  isDeferred,
  maxBodyBytesOf,
  type StreamImplementation,
} from "@flowgate/gateway/server";
import { FlowgateError } from "../../errors.ts";
import { toConnectError } from "../errors/connect-error.ts";
import { type Gate, toFailure } from "../errors/failures.ts";
import type { Route } from "../pipeline/request-context.ts";
import { type Codec, createCodecs } from "./codec.ts";
import { messageTooLarge } from "./compression.ts";
import { createConnectGet, createConnectPost, queryOf } from "./connect-unary.ts";
import { createGrpcUnary } from "./grpc-unary.ts";
import type { RpcMethod, ServeRpc } from "./method.ts";
import { rejectRpc } from "../pipeline/reject-rpc.ts";
import { createStreams, type StreamOptions } from "./stream.ts";

export type RpcOptions = {
  readonly routes: (router: ConnectRouter) => void;
  readonly requestGate: Gate;
  readonly interceptors: readonly Interceptor[];
  /** The types that a google.protobuf.Any in JSON may contain, unless a service is registered with its serviceOptions registry. */
  readonly registry: Registry;
  /** Size of the largest request message; a method or its registration may set a lower limit. */
  readonly readMaxBytes: number;
  /** Methods whose request messages are decoded on first access. Defaults to none. */
  readonly deferred?: readonly DescMethod[];
  /** Longer timeouts of clients are reduced to this. */
  readonly maxTimeoutMs: number;
  /** Registers a callback that ends a stream when the server closes. Returns a function that unregisters it. */
  readonly registerStream: StreamOptions["registerStream"];
  /** Methods exempt from load shedding. */
  readonly exempt: ReadonlySet<DescMethod>;
  readonly log: Logger;
};

/** The handlers of one method. */
type Handlers = {
  /** By Content-Type. */
  readonly posts: ReadonlyMap<string, ServeRpc>;
  /** By the query parameter `encoding`; undefined: the method may have side effects, so GET is not supported. */
  readonly gets: ReadonlyMap<string, ServeRpc> | undefined;
  readonly needsHttp2: boolean;
};

/** The route of each RPC, by its path. */
export function createRpcRoutes(options: RpcOptions): ReadonlyMap<string, Route> {
  return new Map(
    collectImplementations(options.routes).map((implementation) => {
      const rpc = createRpcMethod(implementation, options);
      const handlers =
        implementation.kind === "unary"
          ? createUnaryHandlers(rpc, implementation, options)
          : createStreamHandlers(rpc, implementation, options);
      const { parent, name } = implementation.method;
      return [`/${parent.typeName}/${name}`, createRoute(rpc.method, handlers, options)];
    }),
  );
}

function createRpcMethod(
  { method, options: serviceOptions }: Implementation | StreamImplementation,
  { requestGate, registry, readMaxBytes, deferred = [], maxTimeoutMs, log }: RpcOptions,
): RpcMethod {
  const maxBytes = maxBodyBytesOf(method, serviceOptions.readMaxBytes ?? readMaxBytes);
  return {
    method,
    codecs: createCodecs(
      method,
      serviceOptions.jsonOptions?.registry ?? registry,
      serviceOptions.binaryOptions,
      isDeferred(method, deferred),
    ),
    requestGate,
    failureOf(error, request, context) {
      const failure = toFailure(error instanceof RequestError ? connectErrorOf(error, maxBytes) : error, log, context);
      request.fail(failure.code);
      return failure;
    },
    maxBytes,
    maxTimeoutMs,
  };
}

function createUnaryHandlers(rpc: RpcMethod, { method, call }: Implementation, { interceptors }: RpcOptions): Handlers {
  const invoke = createInvoke(method, call, interceptors);
  const codecs = [rpc.codecs.proto, rpc.codecs.json];
  const posts = new Map<string, ServeRpc>();
  for (const codec of codecs) {
    posts.set(`application/${codec.name}`, createConnectPost(rpc, invoke, codec));
    for (const protocol of ["grpc", "grpc-web"] as const) {
      const serve = createGrpcUnary(rpc, invoke, protocol, codec);
      posts.set(`application/${protocol}+${codec.name}`, serve);
      if (codec.name === "proto") {
        posts.set(`application/${protocol}`, serve);
      }
    }
  }
  const isSafe = method.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS;
  const get = (codec: Codec) => [codec.name, createConnectGet(rpc, invoke, codec)] as const;
  return { posts, gets: isSafe ? new Map(codecs.map(get)) : undefined, needsHttp2: false };
}

function createStreamHandlers(
  rpc: RpcMethod,
  { kind, method, call }: StreamImplementation,
  { interceptors, registerStream }: RpcOptions,
): Handlers {
  const invoke = createStreamInvoke(method, call, interceptors);
  const options = { invoke, hasSingleRequest: kind === "server_streaming", registerStream };
  const codecs = [rpc.codecs.proto, rpc.codecs.json];
  return {
    posts: new Map(codecs.flatMap((codec) => createStreams(rpc, options, codec))),
    gets: undefined,
    needsHttp2: kind === "bidi_streaming",
  };
}

function createRoute(method: DescMethod, { posts, gets, needsHttp2 }: Handlers, { exempt }: RpcOptions): Route {
  const allowedMethods = gets === undefined ? ["POST"] : ["POST", "GET"];
  return {
    kind: "rpc",
    method,
    isExempt: exempt.has(method),
    serve(request) {
      if (needsHttp2 && request.httpVersionMajor < 2) {
        return rejectRpc(request, 505, allowedMethods);
      }
      let serve: ServeRpc | undefined;
      if (request.httpMethod === "POST") {
        const { "content-type": type = "" } = request.headers;
        serve = posts.get(type) ?? posts.get(mediaTypeOf(type));
      } else if (request.httpMethod === "GET" && gets !== undefined) {
        serve = gets.get(queryOf(request).get("encoding") ?? "");
      } else {
        return rejectRpc(request, 405, allowedMethods);
      }
      if (serve === undefined) {
        return rejectRpc(request, 415, allowedMethods);
      }
      request.begin(method);
      return serve(request);
    },
  };
}

/** The media type in lower case, without a charset of UTF-8, which JSON always has. Empty if it has another parameter. */
function mediaTypeOf(contentType: string): string {
  const [, type = "", charset] = /^([^;]+?)(; ?charset=utf-?8)?$/i.exec(contentType) ?? [];
  return charset === undefined || /json$/i.test(type) ? type.toLowerCase() : "";
}

function connectErrorOf(error: RequestError, maxBytes: number): ConnectError {
  if (error.status === 413) {
    // The body of a message is longer than the message: its limit is not that of the body.
    return error.message.startsWith("the body is larger than")
      ? messageTooLarge(maxBytes)
      : toConnectError(new FlowgateError("payload_too_large", error.message));
  }
  if (error.reason === "incomplete_body") {
    return new ConnectError(error.message, Code.Canceled);
  }
  return new ConnectError(error.message, Code.InvalidArgument, undefined, [
    { desc: ErrorInfoSchema, value: create(ErrorInfoSchema, { reason: error.reason ?? "invalid_argument" }) },
  ]);
}
