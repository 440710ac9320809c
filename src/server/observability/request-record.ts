import type { DescMethod } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import type { Context, Span } from "@opentelemetry/api";
import type { Outcome, Protocol } from "../../telemetry/observer.ts";
import { codeOfStatus } from "@flowgate/gateway/server";
import { endCallSpan, type SpannedRequest, startCallSpan } from "./call-span.ts";

/** What metrics, traces and logs record of one request. */
export class RequestRecord {
  readonly startMs = performance.now();
  /** The RPC; undefined until the request is routed to one. */
  method: DescMethod | undefined;
  protocol: Protocol;
  /** Trace context of the caller; once the call has begun, of the call itself. */
  trace: Context;
  #failure: Code | undefined;
  #span: Span | undefined;

  constructor(trace: Context, contentType: string | undefined) {
    this.trace = trace;
    this.protocol = contentType === undefined ? "rest" : protocolOf(contentType);
  }

  /** Records the route of the request. The call may still be rejected before it begins. */
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

  /** Records a failure. Only the first one counts: others are its consequences. */
  fail(code: Code): void {
    this.#failure ??= code;
  }

  /** Records the end of the exchange. Returns its outcome; undefined for success. */
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

/** The protocol by Content-Type alone, for requests that are rejected before they are routed. */
function protocolOf(contentType: string): Protocol {
  if (contentType.startsWith("application/grpc")) {
    return contentType.startsWith("application/grpc-web") ? "grpc-web" : "grpc";
  }
  return contentType.startsWith("application/connect+") ? "connect" : "rest";
}
