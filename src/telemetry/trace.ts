import { ConnectError, type Interceptor, createContextKey } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import {
  type AttributeValue,
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  type TracerProvider,
  context as contexts,
  createContextKey as createTraceKey,
  createTraceState,
  trace,
} from "@opentelemetry/api";
import type { Logger } from "pino";
import { FlowgateError } from "@flowgate/flows/errors";
import type { Exporter, ExporterOptions } from "./exporter.ts";
import { parseTraceparent } from "./traceparent.ts";

// OpenTelemetry's Context is passed explicitly as a value. This avoids AsyncLocalStorage, and without tracing it is the
// same empty object for all requests.

/** Context key of a call's trace context. Set before interceptors and implementations run. */
export const traceKey = createContextKey<Context>(ROOT_CONTEXT, { description: "trace" });

const tracerKey = createTraceKey("flowgate tracer");

/** Returns a root context for traces that are recorded by this tracer. */
function traceRoot(tracer: Tracer): Context {
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

/** A span in progress. Without tracing, its methods do nothing and its context is the parent's. */
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

/** Runs `work` within a new span, or without one if tracing is off. */
export async function inSpan<T>(
  parent: Context,
  name: string,
  attributes: Attributes,
  work: (span: OpenSpan) => Promise<T>,
): Promise<T> {
  const span = beginSpan(parent, name, attributes);
  try {
    const result = await (span.context === parent ? work(span) : contexts.with(span.context, work, undefined, span));
    span.end();
    return result;
  } catch (error) {
    span.end(kindOf(error));
    throw error;
  }
}

/** Makes the call's span active while the implementation runs, so that spans of other instrumentations become its children. */
export const activateTrace: Interceptor = (next) => (request) =>
  contexts.with(request.contextValues.get(traceKey), next, undefined, request);

export function failSpan(span: Span, kind: string): void {
  span.setAttribute("error.type", kind).setStatus({ code: SpanStatusCode.ERROR });
}

export function tracerOf(context: Context): Tracer | undefined {
  return context.getValue(tracerKey) as Tracer | undefined;
}

function kindOf(error: unknown): string {
  if (error instanceof FlowgateError) {
    return error.reason;
  }
  return error instanceof ConnectError ? codeToString(error.code) : "internal";
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

export interface Tracing extends AsyncDisposable {
  /** Parent of traces that have no parent in the request. */
  readonly root: Context;
  /** True if spans are recorded. */
  readonly isOn: boolean;
  /** Exports spans of flows. Undefined: none are wanted. */
  readonly flows: Exporter["flows"];
}

/**
 * Records spans with the configured exporter, whose SDK is loaded only then, or with the global provider if the embedder
 * has registered one before, otherwise not at all. Disposing sends the buffered spans, within a second.
 */
export async function openTracing(
  exporter: ExporterOptions | undefined,
  { version, log }: { version: string; log: Logger },
): Promise<Tracing> {
  if (exporter !== undefined) {
    const { openExporter } = await import("./exporter.ts");
    const { provider, ...opened } = openExporter(exporter, { version, log });
    return { ...opened, root: traceRoot(provider.getTracer("flowgate", version)), isOn: true };
  }
  const tracer = globalTracer(version);
  return {
    root: tracer === undefined ? ROOT_CONTEXT : traceRoot(tracer),
    isOn: tracer !== undefined,
    flows: undefined,
    async [Symbol.asyncDispose]() {},
  };
}

/** The API's default provider is a proxy that returns undefined until a provider is registered. */
function globalTracer(version: string): Tracer | undefined {
  const provider: TracerProvider & { getDelegateTracer?: (name: string, version: string) => Tracer | undefined } =
    trace.getTracerProvider();
  return provider.getDelegateTracer === undefined
    ? provider.getTracer("flowgate", version)
    : provider.getDelegateTracer("flowgate", version);
}
