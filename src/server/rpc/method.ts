import type { DescMethod } from "@bufbuild/protobuf";
import type { ConnectError, HandlerContext } from "@connectrpc/connect";
import type { IncomingHttpHeaders } from "node:http";
import { FlowgateError } from "../../errors.ts";
import { addHeaders, type GatewayResponse, type CallContext, readTimeout } from "@flowgate/gateway/server";
import type { RequestContext } from "../pipeline/request-context.ts";
import type { Codecs } from "./codec.ts";

/** Shared by all protocols of a method. */
export type RpcMethod = {
  readonly method: DescMethod;
  readonly codecs: Codecs;
  readonly requestGate: (context: HandlerContext) => void | Promise<void>;
  /** Converts the error that ended a call, and records it. Never throws. */
  readonly failureOf: (error: unknown, request: RequestContext, context: HandlerContext) => ConnectError;
  /** Limit of a request message, both compressed and decompressed. */
  readonly maxBytes: number;
  readonly maxTimeoutMs: number;
};

/** Serves one method over one protocol. Never throws or rejects. */
export type ServeRpc = (request: RequestContext) => GatewayResponse | Promise<GatewayResponse>;

/** Reads the timeout from the protocol's header. A longer one than `maxMs` is reduced, since clients use it for "none". */
export function createTimeoutReader(
  name: "grpc-timeout" | "connect-timeout-ms",
  maxMs: number,
): (headers: IncomingHttpHeaders) => number | Error | undefined {
  return ({ [name]: value }) => {
    if (value === undefined) {
      return undefined;
    }
    const timeout = readTimeout({ [name]: value }, maxMs);
    return typeof timeout === "object" ? new FlowgateError("invalid_request", timeout.message) : timeout;
  };
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
