// The only file that imports the OpenTelemetry SDK; it is imported where an exporter is configured.
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { setTimeout as delay } from "node:timers/promises";
import { TraceFlags, type TracerProvider as ApiTracerProvider } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { detectResources, resourceAttributesEnvDetector, resourceFromAttributes } from "@opentelemetry/resources";
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type SpanExporter,
  type SpanProcessor,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { Logger } from "pino";

export type ExporterOptions = {
  /** Where an OpenTelemetry collector takes spans by OTLP over HTTP, its path included. */
  readonly endpoint: string;
  /** Sent with each export. They may be secret. */
  readonly headers: Readonly<Record<string, string>>;
  /** The part of all traces that begin here, from 0 to 1; for others their beginner has decided. */
  readonly sampleRatio: number;
  readonly serviceName: string;
};

/** How long the end of the service waits for a collector. The exporter's own timers may hold the process for longer. */
const flushMs = 1_000;

/** So often it is told at most that spans are lost. */
const warnEveryMs = 60_000;

type Exporter = AsyncDisposable & { readonly provider: ApiTracerProvider };

/**
 * A provider of its own, for several gateways may live in one process. Spans wait in memory, 2,048 at most, and
 * are sent in the background; those that can't be are lost.
 */
export function openExporter(options: ExporterOptions, { version, log }: { version: string; log: Logger }): Exporter {
  const { endpoint, headers, sampleRatio, serviceName } = options;
  const agent = new (endpoint.startsWith("https:") ? HttpsAgent : HttpAgent)({ keepAlive: true });
  const exporter = new OTLPTraceExporter({ url: endpoint, headers: { ...headers }, httpAgentOptions: () => agent });
  const losses = createLosses(log);
  const provider = new TracerProvider({
    // The nearer one wins: OTEL_RESOURCE_ATTRIBUTES is how orchestrators tell which pod and node this is.
    resource: detectResources({ detectors: [resourceAttributesEnvDetector] }).merge(
      resourceFromAttributes({ "service.name": serviceName, "service.version": version }),
    ),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(sampleRatio) }),
    spanProcessors: [losses.recorded, new BatchSpanProcessor({ exporter: losses.watch(exporter) })],
  });
  return {
    provider,
    async [Symbol.asyncDispose]() {
      const over = new AbortController();
      const patience = delay(flushMs, undefined, { signal: over.signal });
      // What could not be sent is told below.
      await Promise.race([provider.shutdown().catch(() => {}), patience]);
      over.abort();
      await patience.catch(() => {});
      agent.destroy();
      losses.tellRest();
    },
  };
}

interface Losses {
  /** Counts what there is to send. */
  readonly recorded: SpanProcessor;
  watch(exporter: SpanExporter): SpanExporter;
  /** Tells of all that has not been sent, when nothing more will be. */
  tellRest(): void;
}

/** Tells of exports that fail, but not of each. */
function createLosses(log: Logger): Losses {
  let warnedMs = Number.NEGATIVE_INFINITY;
  let lost = 0;
  /** Neither sent nor told as lost; some of them never came to be exported, for the queue was full. */
  let open = 0;
  let cause = "it did not answer in time";
  const tell = (count: number): void => {
    warnedMs = performance.now();
    lost = 0;
    open -= count;
    log.warn({ lost: count, cause }, "spans could not be exported (tracing.endpoint)");
  };
  return {
    recorded: {
      onStart() {},
      onEnd(span) {
        open += span.spanContext().traceFlags & TraceFlags.SAMPLED;
      },
      async forceFlush() {},
      async shutdown() {},
    },
    watch: (exporter) => ({
      export(spans, done) {
        exporter.export(spans, (result) => {
          if (result.error === undefined) {
            open -= spans.length;
          } else {
            lost += spans.length;
            cause = describe(result.error);
            if (performance.now() - warnedMs >= warnEveryMs) {
              tell(lost);
            }
          }
          done(result);
        });
      },
      shutdown: () => exporter.shutdown(),
      forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
    }),
    tellRest() {
      if (open > 0) {
        tell(open);
      }
    },
  };
}

/** Of an answer its status alone: what else the collector says may repeat what it was sent. */
function describe(error: Error & { code?: unknown }): string {
  return typeof error.code === "number" ? `it answered ${error.code}` : error.message;
}
