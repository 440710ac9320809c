import { type Context, ROOT_CONTEXT, type Tracer, type TracerProvider, trace } from "@opentelemetry/api";
import type { Logger } from "pino";
import type { ExporterOptions } from "./exporter.ts";
import { traceRoot } from "./trace.ts";

export interface Tracing extends AsyncDisposable {
  /** Parent of traces that have no parent in the request. */
  readonly root: Context;
  /** Whether spans are recorded. */
  readonly isOn: boolean;
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
