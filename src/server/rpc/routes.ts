import { create, type DescMethod, type Registry } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type ConnectRouter, type Interceptor } from "@connectrpc/connect";
import type { Logger } from "pino";
import { ErrorInfoSchema } from "@flowgate/transcoding/gen/google/rpc/error_details_pb.js";
import {
  collectImplementations,
  createInvoke,
  createStreamInvoke,
  RequestError,
  type Implementation,
  isDeferred,
  maxBodyBytesOf,
  type StreamImplementation,
} from "@flowgate/transcoding/server";
import { type Gate, toFailure } from "../errors/failures.ts";
import type { Route } from "../pipeline/request-context.ts";
import { type Codec, createCodecs } from "./codec.ts";
import { messageTooLarge } from "./compression.ts";
import { createConnectGet, createConnectPost, queryOf } from "./connect-unary.ts";
import { createGrpcUnary } from "./grpc-unary.ts";
import type { RpcMethod, ServeRpc } from "./method.ts";
import { refuseRpc } from "../pipeline/refuse-rpc.ts";
import { createStreams, type StreamOptions } from "./stream.ts";

export type RpcOptions = {
  readonly routes: (router: ConnectRouter) => void;
  readonly requestGate: Gate;
  readonly interceptors: readonly Interceptor[];
  /** The types that a google.protobuf.Any in JSON may hold. A service may be registered with others. */
  readonly registry: Registry;
  /** Of the largest request message; a method or its registration may allow less. */
  readonly readMaxBytes: number;
  /** Methods whose request messages are decoded when they are read. Absent: none. */
  readonly deferred?: readonly DescMethod[];
  /** A client's longer deadline is cut to it. */
  readonly maxTimeoutMs: number;
  /** Registers what ends a stream when the server closes; returns what unregisters it. */
  readonly untilClosing: StreamOptions["untilClosing"];
  /** Of the methods that are served under load, too. */
  readonly exempt: ReadonlySet<DescMethod>;
  readonly log: Logger;
};

/** The handlers of one method. */
type Handlers = {
  /** By Content-Type. */
  readonly posts: ReadonlyMap<string, ServeRpc>;
  /** By the `encoding` of the query; undefined: the method may have side effects. */
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
  { method, options: own }: Implementation | StreamImplementation,
  { requestGate, registry, readMaxBytes, deferred = [], maxTimeoutMs, log }: RpcOptions,
): RpcMethod {
  const maxBytes = maxBodyBytesOf(method, own.readMaxBytes ?? readMaxBytes);
  return {
    method,
    codecs: createCodecs(
      method,
      own.jsonOptions?.registry ?? registry,
      own.binaryOptions,
      isDeferred(method, deferred),
    ),
    requestGate,
    failureOf(error, request, context) {
      const failure = toFailure(error instanceof RequestError ? ofFault(error, maxBytes) : error, log, context);
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
  { interceptors, untilClosing }: RpcOptions,
): Handlers {
  const invoke = createStreamInvoke(method, call, interceptors);
  const options = { invoke, takesOne: kind === "server_streaming", untilClosing };
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
        return refuseRpc(request, 505, allowedMethods);
      }
      let serve: ServeRpc | undefined;
      if (request.httpMethod === "POST") {
        const { "content-type": type = "" } = request.headers;
        serve = posts.get(type) ?? posts.get(mediaTypeOf(type));
      } else if (request.httpMethod === "GET" && gets !== undefined) {
        serve = gets.get(queryOf(request).get("encoding") ?? "");
      } else {
        return refuseRpc(request, 405, allowedMethods);
      }
      if (serve === undefined) {
        return refuseRpc(request, 415, allowedMethods);
      }
      request.begin(method);
      return serve(request);
    },
  };
}

/** In lower case, without a charset that JSON has anyway; empty where another parameter follows. */
function mediaTypeOf(contentType: string): string {
  const [, type = "", charset] = /^([^;]+?)(; ?charset=utf-?8)?$/i.exec(contentType) ?? [];
  return charset === undefined || /json$/i.test(type) ? type.toLowerCase() : "";
}

function ofFault(fault: RequestError, maxBytes: number): unknown {
  if (fault.status === 413) {
    return messageTooLarge(maxBytes);
  }
  if (fault.reason === "incomplete_body") {
    return new ConnectError(fault.message, Code.Canceled);
  }
  return new ConnectError(fault.message, Code.InvalidArgument, undefined, [
    { desc: ErrorInfoSchema, value: create(ErrorInfoSchema, { reason: fault.reason ?? "invalid_argument" }) },
  ]);
}
