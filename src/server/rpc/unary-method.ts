import type { DescMethod } from "@bufbuild/protobuf";
import type { ConnectError, HandlerContext } from "@connectrpc/connect";
import type { IncomingHttpHeaders } from "node:http";
import { FlowgateError } from "../../errors.ts";
import { addHeaders, type Answer, type CallContext, type Invoke, readTimeout } from "../../transcoding/core.ts";
import type { RequestContext } from "../pipeline/request-context.ts";
import type { Codecs } from "./codec.ts";

/** What the protocols of a unary method share. */
export type UnaryMethod = {
  readonly method: DescMethod;
  readonly invoke: Invoke;
  readonly codecs: Codecs;
  readonly requestGate: (context: HandlerContext) => void | Promise<void>;
  /** Makes a ConnectError of whatever ended a call, and records it. Never throws. */
  readonly failureOf: (error: unknown, request: RequestContext, context: HandlerContext) => ConnectError;
  /** Of a request message, before and after it is decompressed. */
  readonly maxBytes: number;
  readonly maxTimeoutMs: number;
};

/** Serves one method over one protocol; never throws, and never rejects. */
export type ServeUnary = (request: RequestContext) => Answer | Promise<Answer>;

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

/** Adds the headers that the implementation has set, if any. */
export function addSetHeaders(target: Answer["headers"], set: ReturnType<CallContext["setHeaders"]>): void {
  if (set !== undefined) {
    addHeaders(target, set);
  }
}
