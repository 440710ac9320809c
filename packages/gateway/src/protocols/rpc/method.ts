import type { DescMethod } from "@bufbuild/protobuf";
import type { ConnectError, HandlerContext } from "@connectrpc/connect";
import type { CallContext } from "../../call/context.ts";
import { readTimeout } from "../../call/deadline.ts";
import { createCallRunner, type PerformCall, type RunCall } from "../../call/runner.ts";
import type { GatewayRequest } from "../../http/request.ts";
import { addHeaders, type GatewayResponse } from "../../http/response.ts";
import type { Codec, Codecs } from "./codec.ts";

export type RpcMethod = {
  readonly method: DescMethod;
  readonly codecs: Codecs;
  readonly requestGate: ((context: HandlerContext) => void | Promise<void>) | undefined;
  /** Converts the error that ended a call, and reports its code to the request. Never throws. */
  readonly failureOf: (error: unknown, request: GatewayRequest, context: CallContext) => ConnectError;
  /** Limit of a request message, both compressed and decompressed. */
  readonly maxBytes: number;
  readonly maxTimeoutMs: number;
};

/** Serves one method over one protocol. Never throws or rejects. */
export type ServeRpc = (request: GatewayRequest) => GatewayResponse | Promise<GatewayResponse>;

/** The header with the timeout of a call, by protocol. */
const timeoutHeaders = { connect: "connect-timeout-ms", grpc: "grpc-timeout", "grpc-web": "grpc-timeout" } as const;

/** A protocol whose messages are in envelopes: gRPC, gRPC-Web, and streams of Connect. */
export type EnvelopedProtocol = {
  readonly name: keyof typeof timeoutHeaders;
  /** The headers with the compression of messages, and with the compressions that the client accepts. */
  readonly encoding: string;
  readonly acceptEncoding: string;
  /** Returns the last frame, or sets HTTP trailers and returns undefined. */
  readonly end: (
    context: CallContext,
    trailers: GatewayResponse["headers"],
    error: ConnectError | undefined,
  ) => Uint8Array | undefined;
};

/** Creates the runner of a method's calls over one protocol, in one message format. `respondToFailure` creates the response to an error. */
export function createRunner(
  { method, requestGate, failureOf, maxTimeoutMs }: RpcMethod,
  name: EnvelopedProtocol["name"],
  format: Codec["name"],
  respondToFailure: (failure: ConnectError, context: CallContext) => GatewayResponse,
): RunCall {
  const timeout = timeoutHeaders[name];
  return createCallRunner(method, {
    name,
    format,
    requestGate,
    // A longer one is reduced, since clients use it for "none".
    readTimeout: ({ [timeout]: value }) =>
      value === undefined ? undefined : readTimeout({ [timeout]: value }, maxTimeoutMs),
    complete: (_request, response) => response,
    errorResponse: (error, { request, context }) => respondToFailure(failureOf(error, request, context), context),
  });
}

const noVariables: readonly string[] = [];

/** Serves the calls of a method over one protocol by POST, in one message format. */
export function serveCalls(
  rpc: RpcMethod,
  name: EnvelopedProtocol["name"],
  format: Codec["name"],
  call: PerformCall,
  respondToFailure: (failure: ConnectError, context: CallContext) => GatewayResponse,
): ServeRpc {
  const run = createRunner(rpc, name, format, respondToFailure);
  return (request) => run(call, request, noVariables);
}

/** Adds the trailers that the implementation has set, without reserved names. */
export function addTrailersOf(context: CallContext, trailers: GatewayResponse["headers"]): void {
  const set = context.existingResponseTrailer();
  if (set !== undefined) {
    addHeaders(trailers, set);
  }
}
