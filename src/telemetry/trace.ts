import { ConnectError, type Interceptor, createContextKey } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import {
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  type TracerProvider,
  type Tracer,
  context as contexts,
  trace,
} from "@opentelemetry/api";
import type { Logger } from "pino";
import { FlowgateError } from "@flowgate/flows/errors";
import type { Exporter, ExporterOptions } from "./exporter.ts";
import { type OpenSpan, beginSpan, traceRoot } from "@flowgate/base/spans";

/** Context key of a call's trace context. Set before interceptors and implementations run. */
export const traceKey = createContextKey<Context>(ROOT_CONTEXT, { description: "trace" });

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

function kindOf(error: unknown): string {
  if (error instanceof FlowgateError) {
    return error.reason;
  }
  return error instanceof ConnectError ? codeToString(error.code) : "internal";
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
