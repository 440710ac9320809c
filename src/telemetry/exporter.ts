// The only file that imports the OpenTelemetry SDK. It is loaded only if an exporter is configured.
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { setTimeout as delay } from "node:timers/promises";
import {
  type HrTime,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type TracerProvider as ApiTracerProvider,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import {
  type Resource,
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
} from "@opentelemetry/resources";
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type ReadableSpan,
  type SpanExporter,
  type SpanProcessor,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { Logger } from "pino";
import type { FlowSpanExporter, SpanRecord } from "./span-record.ts";

export type ExporterOptions = {
  /** The URL, path included, at which an OpenTelemetry collector takes spans by OTLP over HTTP. */
  readonly endpoint: string;
  /** Sent with each export. They may be secret. */
  readonly headers: Readonly<Record<string, string>>;
  /** The fraction of the traces started here that is recorded, from 0 to 1. For traces started by a caller, the caller has decided. */
  readonly sampleRatio: number;
  readonly serviceName: string;
  /** True if the messages of flows are traced too. */
  readonly flows: boolean;
};

/** The time that the shutdown waits for the last export. The exporter's own timeouts are longer. */
const flushTimeoutMs = 1_000;

/** Minimum interval between warnings about lost spans. */
const warnIntervalMs = 60_000;

/** The spans of flows that are exported in a second; flows can write any number. */
const maxFlowSpans = 3_000;

export type Exporter = AsyncDisposable & {
  readonly provider: ApiTracerProvider;
  /** Absent: the messages of flows are not traced. */
  readonly flows: FlowSpanExporter | undefined;
};

/**
 * Creates a provider per gateway, since a process may have several. Up to 2,048 spans are buffered in memory and sent
 * in the background; failed ones are dropped.
 */
export function openExporter(options: ExporterOptions, { version, log }: { version: string; log: Logger }): Exporter {
  const { endpoint, headers, sampleRatio, serviceName, flows } = options;
  const agent = new (endpoint.startsWith("https:") ? HttpsAgent : HttpAgent)({ keepAlive: true });
  const exporter = new OTLPTraceExporter({ url: endpoint, headers: { ...headers }, httpAgentOptions: () => agent });
  const losses = createLossLog(log);
  // The options take precedence over OTEL_RESOURCE_ATTRIBUTES, in which orchestrators put the pod and node.
  const resource = detectResources({ detectors: [resourceAttributesEnvDetector] }).merge(
    resourceFromAttributes({ "service.name": serviceName, "service.version": version }),
  );
  const spanProcessors = [losses.recorded, new BatchSpanProcessor({ exporter: losses.watch(exporter) })];
  const provider = new TracerProvider({
    resource,
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(sampleRatio) }),
    spanProcessors,
  });
  return {
    provider,
    flows: flows ? createFlowExporter({ sampleRatio, resource, spanProcessors, losses }) : undefined,
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
  /** Counts spans that were not recorded. */
  add(count: number, reason: string): void;
  /** Logs the spans that were not sent. Called after shutdown. */
  logRemaining(): void;
}

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
  const lose = (count: number, reason: string): void => {
    lost += count;
    cause = reason;
    if (performance.now() - warnedMs >= warnIntervalMs) {
      warn(lost);
    }
  };
  return {
    add(count, reason) {
      pending += count;
      lose(count, reason);
    },
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
            lose(spans.length, describe(result.error));
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

type FlowExporterOptions = {
  readonly sampleRatio: number;
  readonly resource: Resource;
  readonly spanProcessors: readonly SpanProcessor[];
  readonly losses: LossLog;
};

function createFlowExporter({ sampleRatio, resource, spanProcessors, losses }: FlowExporterOptions): FlowSpanExporter {
  let second = 0;
  let count = 0;
  return {
    sampleRatio,
    record(spans, dropped) {
      const now = Math.floor(performance.now() / 1_000);
      if (now !== second) {
        second = now;
        count = 0;
      }
      const accepted = spans.slice(0, maxFlowSpans - count);
      count += accepted.length;
      for (const span of accepted) {
        const readable = toReadableSpan(span, resource);
        spanProcessors.forEach((processor) => processor.onEnd(readable));
      }
      const lost = dropped + spans.length - accepted.length;
      if (lost > 0) {
        losses.add(lost, "flows processed more messages than can be traced; reduce tracing.sampleRatio");
      }
    },
  };
}

/** The SDK creates spans with ids of its own only. */
function toReadableSpan(span: SpanRecord, resource: Resource): ReadableSpan {
  const { traceId, spanId, parentSpanId, name, isServer, startMs, endMs, attributes, isError } = span;
  const context = { traceId, traceFlags: TraceFlags.SAMPLED };
  return {
    name,
    kind: isServer ? SpanKind.SERVER : SpanKind.INTERNAL,
    spanContext: () => ({ ...context, spanId }),
    ...(parentSpanId !== undefined && { parentSpanContext: { ...context, spanId: parentSpanId } }),
    startTime: toHrTime(startMs),
    endTime: toHrTime(endMs),
    duration: toHrTime(endMs - startMs),
    status: { code: isError ? SpanStatusCode.ERROR : SpanStatusCode.UNSET },
    attributes,
    links: [],
    events: [],
    ended: true,
    resource,
    instrumentationScope: { name: "flowgate.flows" },
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

function toHrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1_000);
  return [seconds, Math.round((ms - seconds * 1_000) * 1e6)];
}
