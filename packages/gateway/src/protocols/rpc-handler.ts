import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { isDeferred } from "../call/deferred.ts";
import type { Implementation, StreamImplementation } from "../call/implementations.ts";
import { createInvoke, createStreamInvoke } from "../call/invoke.ts";
import type { OpenStreams, OpenStreamsOf } from "../call/shutdown.ts";
import { createErrorMapper } from "../errors/map-error.ts";
import { codeOfStatus } from "../errors/codes.ts";
import { BodyTooLargeError, RequestError } from "../http/request-error.ts";
import type { GatewayRequest } from "../http/request.ts";
import type { GatewayResponse } from "../http/response.ts";
import { type CompleteGatewayOptions, forRegistration } from "../options/options.ts";
import { maxBodyBytesOf } from "../schema/rules.ts";
import { connectStream, createConnectGet, createConnectPost, queryOf, type ServeGet } from "./connect.ts";
import { createGrpcUnary, grpc } from "./grpc.ts";
import { grpcWeb } from "./grpc-web.ts";
import { type Codec, createCodecs } from "./rpc/codec.ts";
import { messageTooLarge } from "./rpc/compression.ts";
import type { RpcMethod, ServeRpc } from "./rpc/method.ts";
import { rejectRpc } from "./rpc-rejection.ts";
import { createStream } from "./rpc/stream.ts";

export type RpcHandler = {
  readonly allowedMethods: readonly string[];
  readonly serve: (request: GatewayRequest) => GatewayResponse | Promise<GatewayResponse>;
};

type Handlers = {
  /** By Content-Type. */
  readonly posts: ReadonlyMap<string, ServeRpc>;
  /** By the query parameter `encoding`; undefined: GET is not supported, because the method may have side effects. */
  readonly gets: ReadonlyMap<string, ServeGet> | undefined;
  readonly needsHttp2: boolean;
};

/** Compiles an RPC for the protocols of `options`. `openStreamsOf` returns the streams that a signal ends. */
export function createRpcHandler(
  implementation: Implementation | StreamImplementation,
  given: CompleteGatewayOptions,
  openStreamsOf: OpenStreamsOf,
): RpcHandler {
  const options = forRegistration(given, implementation.options);
  const rpc = createRpcMethod(implementation, options);
  const handlers =
    implementation.kind === "unary"
      ? createUnaryHandlers(rpc, implementation, options)
      : createStreamHandlers(rpc, implementation, options, openStreamsOf(options.shutdownSignal));
  return createHandler(handlers);
}

function createRpcMethod(
  { method, options: registration }: Implementation | StreamImplementation,
  options: CompleteGatewayOptions,
): RpcMethod {
  const { requestGate, mapError, reportError, readMaxBytes, deferred, maxTimeoutMs, errorDomain } = options;
  const maxBytes = maxBodyBytesOf(method, readMaxBytes);
  const mapped = createErrorMapper(mapError, reportError);
  return {
    method,
    codecs: createCodecs(method, options, registration.binaryOptions, isDeferred(method, deferred)),
    requestGate,
    failureOf(error, request, context) {
      const failure =
        error instanceof RequestError
          ? connectErrorOf(error, maxBytes, errorDomain)
          : toFailure(mapped(error, context));
      request.fail?.(failure.code);
      return failure;
    },
    maxBytes,
    maxTimeoutMs,
  };
}

function createUnaryHandlers(
  rpc: RpcMethod,
  { method, call }: Implementation,
  { interceptors, protocols }: CompleteGatewayOptions,
): Handlers {
  const invoke = createInvoke(method, call, interceptors);
  const codecs = [rpc.codecs.proto, rpc.codecs.json];
  const hasConnect = protocols.includes("connect");
  const posts = new Map<string, ServeRpc>();
  for (const codec of codecs) {
    if (hasConnect) {
      posts.set(`application/${codec.name}`, createConnectPost(rpc, invoke, codec));
    }
    for (const protocol of [grpc, grpcWeb].filter(({ name }) => protocols.includes(name))) {
      addByType(posts, protocol.name, codec, createGrpcUnary(rpc, invoke, protocol, codec));
    }
  }
  const isSafe = hasConnect && method.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS;
  const get = (codec: Codec) => [codec.name, createConnectGet(rpc, invoke, codec)] as const;
  return { posts, gets: isSafe ? new Map(codecs.map(get)) : undefined, needsHttp2: false };
}

function createStreamHandlers(
  rpc: RpcMethod,
  { kind, method, call }: StreamImplementation,
  { interceptors, protocols }: CompleteGatewayOptions,
  openStreams: OpenStreams,
): Handlers {
  const invoke = createStreamInvoke(method, call, interceptors);
  const options = { invoke, hasSingleRequest: kind === "server_streaming", openStreams };
  const posts = new Map<string, ServeRpc>();
  for (const codec of [rpc.codecs.proto, rpc.codecs.json]) {
    for (const protocol of [connectStream, grpc, grpcWeb].filter(({ name }) => protocols.includes(name))) {
      addByType(posts, protocol.name, codec, createStream(rpc, options, protocol, codec));
    }
  }
  return { posts, gets: undefined, needsHttp2: kind === "bidi_streaming" };
}

/** Adds a handler for its Content-Type. gRPC and gRPC-Web have a short one for the binary format. */
function addByType(posts: Map<string, ServeRpc>, protocol: string, codec: Codec, serve: ServeRpc): void {
  posts.set(`application/${protocol}+${codec.name}`, serve);
  if (codec.name === "proto" && protocol !== "connect") {
    posts.set(`application/${protocol}`, serve);
  }
}

function createHandler({ posts, gets, needsHttp2 }: Handlers): RpcHandler {
  const allowedMethods = gets === undefined ? ["POST"] : ["POST", "GET"];
  return {
    allowedMethods,
    serve(request) {
      if (needsHttp2 && request.httpVersionMajor < 2) {
        return rejectRpc(request, 505);
      }
      if (request.httpMethod === "POST") {
        const { "content-type": type = "" } = request.headers;
        const serve = posts.get(type) ?? posts.get(mediaTypeOf(type));
        return serve?.(request) ?? rejectRpc(request, 415, [...posts.keys()]);
      }
      if (request.httpMethod === "GET" && gets !== undefined) {
        const query = queryOf(request);
        const serve = gets.get(query.get("encoding") ?? "");
        return serve?.(request, query) ?? rejectRpc(request, 415, [...gets.keys()]);
      }
      return rejectRpc(request, 405, allowedMethods);
    },
  };
}

/** The media type in lower case, without a charset of UTF-8, which JSON always has. Empty if it has another parameter. */
function mediaTypeOf(contentType: string): string {
  const [, type = "", charset] = /^([^;]+?)(; ?charset=utf-?8)?$/i.exec(contentType) ?? [];
  return charset === undefined || /json$/i.test(type) ? type.toLowerCase() : "";
}

/** An error that is no ConnectError may contain internal information. */
function toFailure(error: unknown): ConnectError {
  return error instanceof ConnectError ? error : new ConnectError("internal error", Code.Internal);
}

function connectErrorOf(error: RequestError, maxBytes: number, domain: string): ConnectError {
  // The body of a message is longer than the message, and has a limit of its own.
  const { message, reason, status } = error instanceof BodyTooLargeError ? messageTooLarge(maxBytes) : error;
  const code = reason === "incomplete_body" ? Code.Canceled : codeOfStatus(status);
  return new ConnectError(message, code, undefined, [
    { desc: ErrorInfoSchema, value: { reason: reason ?? "invalid_argument", domain } },
  ]);
}
