import {
  type AttributeValue,
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  createContextKey,
  createTraceState,
  trace,
} from "@opentelemetry/api";
import { parseTraceparent } from "./traceparent.ts";

// OpenTelemetry's Context is passed explicitly as a value. This avoids AsyncLocalStorage, and without tracing it is the
// same empty object for all requests.

const tracerKey = createContextKey("flowgate tracer");

/** Returns a root context for traces that are recorded by this tracer. */
export function traceRoot(tracer: Tracer): Context {
  return ROOT_CONTEXT.setValue(tracerKey, tracer);
}

/** Parses the trace headers of a caller. Returns `root` if they are invalid. */
export function readTraceparent(root: Context, traceparent: unknown, tracestate?: unknown): Context {
  const parsed = parseTraceparent(traceparent);
  if (parsed === undefined) {
    return root;
  }
  const { traceId, spanId, isSampled } = parsed;
  return trace.setSpanContext(root, {
    traceId,
    spanId,
    traceFlags: isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
    isRemote: true,
    ...(typeof tracestate === "string" && { traceState: createTraceState(tracestate) }),
  });
}

/** The value of the traceparent header for an outgoing call; undefined outside of a trace. */
export function formatTraceparent(context: Context): string | undefined {
  const spanContext = trace.getSpanContext(context);
  return spanContext === undefined
    ? undefined
    : `00-${spanContext.traceId}-${spanContext.spanId}-${spanContext.traceFlags.toString(16).padStart(2, "0")}`;
}

/** Correlates log lines with spans. The names are OpenTelemetry's for logs in formats other than OTLP. */
export type TraceIds = { readonly trace_id?: string; readonly span_id?: string };

const noIds: TraceIds = {};

export function traceIds(context: Context): TraceIds {
  const spanContext = trace.getSpanContext(context);
  return spanContext === undefined ? noIds : { trace_id: spanContext.traceId, span_id: spanContext.spanId };
}

/** A span in progress. Without tracing, its methods do nothing and its context is that of the parent. */
export type OpenSpan = {
  readonly context: Context;
  set(name: string, value: AttributeValue): void;
  /** `failure` must be one of a fixed set of words, not a message, which may contain sensitive data. */
  end(failure?: string): void;
};

export function beginSpan(parent: Context, name: string, attributes: Attributes = {}): OpenSpan {
  const span = tracerOf(parent)?.startSpan(name, { attributes, startTime: spanTime(performance.now()) }, parent);
  if (span === undefined) {
    return { context: parent, set() {}, end() {} };
  }
  return {
    context: trace.setSpan(parent, span),
    set: (key, value) => void span.setAttribute(key, value),
    end(failure) {
      if (failure !== undefined) {
        failSpan(span, failure);
      }
      span.end(spanTime(performance.now()));
    },
  };
}

export function failSpan(span: Span, kind: string): void {
  span.setAttribute("error.type", kind).setStatus({ code: SpanStatusCode.ERROR });
}

export function tracerOf(context: Context): Tracer | undefined {
  return context.getValue(tracerKey) as Tracer | undefined;
}

/** A larger difference between the clocks means that the system clock was set. */
const toleranceMs = 100;

let originMs = performance.timeOrigin;

/**
 * Converts a value of `performance.now()` to Unix time in ms, for OpenTelemetry. All spans share this clock: by default,
 * a span starts at a whole ms of the system clock, so that a child span could end after its parent.
 */
export function spanTime(monotonicMs: number): number {
  const nowMs = performance.now();
  if (Math.abs(Date.now() - (originMs + nowMs)) > toleranceMs) {
    originMs = Date.now() - nowMs;
  }
  return originMs + monotonicMs;
}
