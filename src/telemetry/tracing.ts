import { type Context, ROOT_CONTEXT, type Tracer, type TracerProvider, trace } from "@opentelemetry/api";
import type { Logger } from "pino";
import type { ExporterOptions } from "./exporter.ts";
import { traceRoot } from "./trace.ts";

export interface Tracing extends AsyncDisposable {
  /** Where traces begin that no caller has begun. */
  readonly root: Context;
  /** Whether anyone takes spans. */
  readonly isOn: boolean;
}

/**
 * Spans go to the exporter that is configured, whose SDK is loaded only then; else to the global provider, where
 * the embedder has registered one before; else there are none. Disposing sends what is left, for a while.
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

/** The API's own provider stands in for one that is not there yet: it alone can tell. */
function globalTracer(version: string): Tracer | undefined {
  const provider: TracerProvider & { getDelegateTracer?: (name: string, version: string) => Tracer | undefined } =
    trace.getTracerProvider();
  return provider.getDelegateTracer === undefined
    ? provider.getTracer("flowgate", version)
    : provider.getDelegateTracer("flowgate", version);
}
