import type { DescMethod } from "@bufbuild/protobuf";
import type { ConnectError, HandlerContext } from "@connectrpc/connect";
import type { IncomingHttpHeaders } from "node:http";
import { FlowgateError } from "../../errors.ts";
import { addHeaders, type TranscodingResponse, type CallContext, readTimeout } from "@flowgate/transcoding/server";
import type { RequestContext } from "../pipeline/request-context.ts";
import type { Codecs } from "./codec.ts";

/** What the protocols of a method share. */
export type RpcMethod = {
  readonly method: DescMethod;
  readonly codecs: Codecs;
  readonly requestGate: (context: HandlerContext) => void | Promise<void>;
  /** Makes a ConnectError of whatever ended a call, and records it. Never throws. */
  readonly failureOf: (error: unknown, request: RequestContext, context: HandlerContext) => ConnectError;
  /** Of a request message, before and after it is decompressed. */
  readonly maxBytes: number;
  readonly maxTimeoutMs: number;
};

/** Serves one method over one protocol; never throws, and never rejects. */
export type ServeRpc = (request: RequestContext) => TranscodingResponse | Promise<TranscodingResponse>;

/** Reads the deadline from the protocol's own header. A longer one than allowed is cut: clients mean none by it. */
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

/** What the implementation has set, as far as it may be sent. */
export function setHeadersOf(context: CallContext): TranscodingResponse["headers"] {
  return record(context.existingResponseHeader());
}

export function setTrailersOf(context: CallContext): TranscodingResponse["headers"] {
  return record(context.existingResponseTrailer());
}

function record(set: ReturnType<CallContext["existingResponseHeader"]>): TranscodingResponse["headers"] {
  const headers: TranscodingResponse["headers"] = {};
  if (set !== undefined) {
    addHeaders(headers, set);
  }
  return headers;
}
