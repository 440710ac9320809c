// The only file that imports the OpenTelemetry SDK. It is loaded only if an exporter is configured.
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
  /** The fraction of the traces started here that is recorded, from 0 to 1. For traces started by a caller, the caller has decided. */
  readonly sampleRatio: number;
  readonly serviceName: string;
};

/** How long the shutdown waits for the last export. The exporter's own timeouts are longer. */
const flushTimeoutMs = 1_000;

/** Minimum interval between warnings about lost spans. */
const warnIntervalMs = 60_000;

type Exporter = AsyncDisposable & { readonly provider: ApiTracerProvider };

/**
 * Creates a provider per gateway, since a process may have several. Up to 2,048 spans are buffered in memory and sent
 * in the background; those that can't be sent are dropped.
 */
export function openExporter(options: ExporterOptions, { version, log }: { version: string; log: Logger }): Exporter {
  const { endpoint, headers, sampleRatio, serviceName } = options;
  const agent = new (endpoint.startsWith("https:") ? HttpsAgent : HttpAgent)({ keepAlive: true });
  const exporter = new OTLPTraceExporter({ url: endpoint, headers: { ...headers }, httpAgentOptions: () => agent });
  const losses = createLossLog(log);
  const provider = new TracerProvider({
    // The options take precedence over OTEL_RESOURCE_ATTRIBUTES, in which orchestrators put the pod and node.
    resource: detectResources({ detectors: [resourceAttributesEnvDetector] }).merge(
      resourceFromAttributes({ "service.name": serviceName, "service.version": version }),
    ),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(sampleRatio) }),
    spanProcessors: [losses.recorded, new BatchSpanProcessor({ exporter: losses.watch(exporter) })],
  });
  return {
    provider,
    async [Symbol.asyncDispose]() {
      const cancelTimeout = new AbortController();
      const timeout = delay(flushTimeoutMs, undefined, { signal: cancelTimeout.signal });
      // Export errors are logged below.
      await Promise.race([provider.shutdown().catch(() => {}), timeout]);
      cancelTimeout.abort();
      await timeout.catch(() => {});
      agent.destroy();
      losses.logRemaining();
    },
  };
}

interface LossLog {
  /** Counts the spans to be sent. */
  readonly recorded: SpanProcessor;
  /** Wraps an exporter to count its results. */
  watch(exporter: SpanExporter): SpanExporter;
  /** Logs the spans that were not sent. Called after shutdown. */
  logRemaining(): void;
}

/** Logs lost spans, at most once per `warnIntervalMs`. */
function createLossLog(log: Logger): LossLog {
  let warnedMs = Number.NEGATIVE_INFINITY;
  let lost = 0;
  /** Neither sent nor logged as lost; includes spans that were dropped because the queue was full. */
  let pending = 0;
  let cause = "the collector did not respond in time";
  const warn = (count: number): void => {
    warnedMs = performance.now();
    lost = 0;
    pending -= count;
    log.warn({ lost: count, cause }, "spans could not be exported (tracing.endpoint)");
  };
  return {
    recorded: {
      onStart() {},
      onEnd(span) {
        pending += span.spanContext().traceFlags & TraceFlags.SAMPLED;
      },
      async forceFlush() {},
      async shutdown() {},
    },
    watch: (exporter) => ({
      export(spans, done) {
        exporter.export(spans, (result) => {
          if (result.error === undefined) {
            pending -= spans.length;
          } else {
            lost += spans.length;
            cause = describe(result.error);
            if (performance.now() - warnedMs >= warnIntervalMs) {
              warn(lost);
            }
          }
          done(result);
        });
      },
      shutdown: () => exporter.shutdown(),
      forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
    }),
    logRemaining() {
      if (pending > 0) {
        warn(pending);
      }
    },
  };
}

/** Describes an error response by its status alone, since its body may repeat the request, which may contain secrets. */
function describe(error: Error & { code?: unknown }): string {
  return typeof error.code === "number" ? `the collector responded with ${error.code}` : error.message;
}
