import type { DescMethod } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import type { Context, Span } from "@opentelemetry/api";
import type { Outcome, Protocol } from "../../telemetry/observer.ts";
import { codeOfStatus } from "@flowgate/transcoding/server";
import { endCallSpan, type SpannedRequest, startCallSpan } from "./call-span.ts";

/** What metrics, traces and logs say of one request. */
export class RequestRecord {
  readonly startMs = performance.now();
  /** The RPC; undefined as long as the request led to none. */
  method: DescMethod | undefined;
  protocol: Protocol;
  /** Of the caller; once the call has begun, of the call itself. */
  trace: Context;
  #failure: Code | undefined;
  #span: Span | undefined;

  constructor(trace: Context, contentType: string | undefined) {
    this.trace = trace;
    this.protocol = contentType === undefined ? "rest" : protocolOf(contentType);
  }

  /** The request leads to this method, though perhaps no call will come of it. */
  routed(method: DescMethod | undefined, kind: "rpc" | "rest" | "endpoint"): void {
    this.method = method;
    if (kind === "rpc" && this.protocol === "rest") {
      this.protocol = "connect";
    }
  }

  begin(method: DescMethod, request: SpannedRequest): void {
    const started = startCallSpan(this.trace, method, this.protocol, this.startMs, request);
    if (started !== undefined) {
      this.#span = started.span;
      this.trace = started.trace;
    }
  }

  /** The first failure counts: what follows is its consequence. */
  fail(code: Code): void {
    this.#failure ??= code;
  }

  /** The exchange is over. Returns undefined for success. */
  end(isSent: boolean, status: number): Outcome {
    const outcome = this.#outcome(isSent, status);
    if (this.#span !== undefined) {
      endCallSpan(this.#span, this.protocol, outcome, status);
    }
    return outcome;
  }

  #outcome(isSent: boolean, status: number): Outcome {
    if (!isSent && (this.#failure === undefined || this.#failure === Code.Aborted)) {
      return Code.Canceled;
    }
    return this.#failure ?? (status < 400 ? undefined : codeOfStatus(status));
  }
}

/** As far as the Content-Type says it: a request that is refused early leads no further. */
function protocolOf(contentType: string): Protocol {
  if (contentType.startsWith("application/grpc")) {
    return contentType.startsWith("application/grpc-web") ? "grpc-web" : "grpc";
  }
  return contentType.startsWith("application/connect+") ? "connect" : "rest";
}
