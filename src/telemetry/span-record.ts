import type { Attributes } from "@opentelemetry/api";

export type SpanRecord = {
  /** Lowercase hex, as in W3C Trace Context. */
  readonly traceId: string;
  readonly spanId: string;
  /** Absent: the trace begins with this span. */
  readonly parentSpanId?: string;
  readonly name: string;
  readonly isServer: boolean;
  /** In Unix time. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  readonly isError: boolean;
};

export type FlowSpanExporter = {
  readonly sampleRatio: number;
  /** `dropped`: how many are missing. */
  record(spans: readonly SpanRecord[], dropped: number): void;
};
