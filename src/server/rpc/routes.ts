import { create, type DescMethod, type Registry } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  type ConnectRouterOptions,
  createConnectRouter,
  type Interceptor,
  type MethodImpl,
} from "@connectrpc/connect";
import type { Logger } from "pino";
import { ErrorInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import {
  collectImplementations,
  createInvoke,
  Fault,
  type Implementation,
  maxBodyBytesOf,
  type StreamImplementation,
} from "../../transcoding/core.ts";
import { type Gate, toFailure } from "../interceptors.ts";
import type { Route } from "../pipeline/route.ts";
import { createCodecs } from "./codec.ts";
import { compressions, messageTooLarge } from "./compression.ts";
import { createConnectGet, createConnectPost, queryOf } from "./connect-unary.ts";
import { createGrpcUnary } from "./grpc-unary.ts";
import { refuseRpc } from "./refuse-rpc.ts";
import { blameClient, checkJson, noteArrival } from "./rpc-faults.ts";
import { serveStream } from "./stream.ts";
import type { ServeUnary, UnaryMethod } from "./unary-method.ts";

export type RpcOptions = {
  readonly routes: (router: ConnectRouter) => void;
  readonly requestGate: Gate;
  /** Of methods that stream; it throws ConnectErrors only. */
  readonly streamGate: Gate;
  readonly unaryInterceptors: readonly Interceptor[];
  readonly streamInterceptors: readonly Interceptor[];
  /** The types that a google.protobuf.Any in JSON may hold. */
  readonly registry: Registry;
  /** Of the largest request message; a method or its registration may allow less. */
  readonly readMaxBytes: number;
  /** A client's longer deadline is cut to it. */
  readonly maxTimeoutMs: number;
  /** Of the methods that are served under load, too. */
  readonly exempt: ReadonlySet<DescMethod>;
  readonly log: Logger;
};

/** The route of each RPC, by its path. */
export function createRpcRoutes(options: RpcOptions): ReadonlyMap<string, Route> {
  const implementations = collectImplementations(options.routes);
  const streams = implementations.filter((implementation) => implementation.kind !== "unary");
  return new Map([
    ...implementations
      .filter((implementation) => implementation.kind === "unary")
      .map((implementation) => [pathOf(implementation.method), createUnaryRoute(implementation, options)] as const),
    ...createStreamRoutes(streams, options),
  ]);
}

function pathOf({ parent, name }: DescMethod): string {
  return `/${parent.typeName}/${name}`;
}

function createUnaryRoute({ method, call, options: own }: Implementation, options: RpcOptions): Route {
  const { requestGate, registry, maxTimeoutMs, log } = options;
  const maxBytes = maxBodyBytesOf(method, own.readMaxBytes ?? options.readMaxBytes);
  const codecs = createCodecs(method, registry);
  const unary: UnaryMethod = {
    method,
    invoke: createInvoke(method, call, options.unaryInterceptors),
    codecs,
    requestGate,
    failureOf(error, request, context) {
      const failure = toFailure(error instanceof Fault ? ofFault(error, maxBytes) : error, log, context);
      request.fail(failure.code);
      return failure;
    },
    maxBytes,
    maxTimeoutMs,
  };
  const isSafe = method.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS;
  const gets = isSafe
    ? new Map(["json", "proto"].map((name) => [name, createConnectGet(unary, codecs[name as "json" | "proto"])]))
    : undefined;
  const posts = new Map<string, ServeUnary>();
  for (const codec of [codecs.proto, codecs.json]) {
    posts.set(`application/${codec.name}`, createConnectPost(unary, codec));
    for (const protocol of ["grpc", "grpc-web"] as const) {
      const serve = createGrpcUnary(unary, protocol, codec);
      posts.set(`application/${protocol}+${codec.name}`, serve);
      if (codec.name === "proto") {
        posts.set(`application/${protocol}`, serve);
      }
    }
  }
  const allowedMethods = isSafe ? ["POST", "GET"] : ["POST"];
  return {
    kind: "rpc",
    method,
    isExempt: options.exempt.has(method),
    serve(request) {
      let serve: ServeUnary | undefined;
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

function ofFault(fault: Fault, maxBytes: number): unknown {
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

/** By Connect's own handlers. */
function createStreamRoutes(
  implementations: readonly StreamImplementation[],
  { streamGate, streamInterceptors, readMaxBytes, maxTimeoutMs, exempt, log }: RpcOptions,
): [string, Route][] {
  const options: ConnectRouterOptions = {
    acceptCompression: [...compressions],
    // Kept, one of two bytes would cost a hundred times its size.
    binaryOptions: { readUnknownFields: false },
    readMaxBytes,
    maxTimeoutMs,
    requestGate: blameClient(streamGate),
    interceptors: [...streamInterceptors, noteArrival],
  };
  const router = createConnectRouter(options);
  const checked = checkJson(router, options);
  for (const { method, call, options: own } of implementations) {
    checked.rpc(method, call as MethodImpl<DescMethod>, own);
  }
  return router.handlers.map((handler) => [
    handler.requestPath,
    {
      kind: "rpc",
      method: handler.method,
      isExempt: exempt.has(handler.method),
      serve(request) {
        request.begin(handler.method);
        return serveStream(handler, request, maxTimeoutMs, log);
      },
    },
  ]);
}
