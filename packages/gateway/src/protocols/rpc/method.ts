import type { DescMethod } from "@bufbuild/protobuf";
import type { ConnectError, HandlerContext } from "@connectrpc/connect";
import type { CallContext } from "../../call/context.ts";
import { readTimeout } from "../../call/deadline.ts";
import type { RequestHeaders } from "../../http/request-headers.ts";
import type { GatewayRequest } from "../../http/request.ts";
import { addHeaders, type GatewayResponse } from "../../http/response.ts";
import type { Codecs } from "./codec.ts";

/** Shared by all protocols of a method. */
export type RpcMethod = {
  readonly method: DescMethod;
  readonly codecs: Codecs;
  readonly requestGate: ((context: HandlerContext) => void | Promise<void>) | undefined;
  /** Converts the error that ended a call, and reports its code to the request. Never throws. */
  readonly failureOf: (error: unknown, request: GatewayRequest, context: HandlerContext) => ConnectError;
  /** Limit of a request message, both compressed and decompressed. */
  readonly maxBytes: number;
  readonly maxTimeoutMs: number;
};

/** Serves one method over one protocol. Never throws or rejects. */
export type ServeRpc = (request: GatewayRequest) => GatewayResponse | Promise<GatewayResponse>;

/** Reads the timeout from the protocol's header. A longer one than `maxMs` is reduced, since clients use it for "none". */
export function createTimeoutReader(
  name: "grpc-timeout" | "connect-timeout-ms",
  maxMs: number,
): (headers: RequestHeaders) => number | Error | undefined {
  return ({ [name]: value }) => (value === undefined ? undefined : readTimeout({ [name]: value }, maxMs));
}

/** The headers that the implementation has set, without reserved names. */
export function setHeadersOf(context: CallContext): GatewayResponse["headers"] {
  return toHeaders(context.existingResponseHeader());
}

export function setTrailersOf(context: CallContext): GatewayResponse["headers"] {
  return toHeaders(context.existingResponseTrailer());
}

function toHeaders(set: ReturnType<CallContext["existingResponseHeader"]>): GatewayResponse["headers"] {
  const headers: GatewayResponse["headers"] = {};
  if (set !== undefined) {
    addHeaders(headers, set);
  }
  return headers;
}
