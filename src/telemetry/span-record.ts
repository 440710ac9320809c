import type { Attributes } from "@opentelemetry/api";
import type { FlowSpan } from "@flowgate/runtime";

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

/** Returns the span with the attributes that docs/metrics.md lists. */
export function toSpanRecord({ hasFailed, http, ...span }: FlowSpan): SpanRecord {
  const { nodeId, nodeType = "node", nodeName, flowId, flowLabel, subflowPath, ...record } = span;
  const nodeTitle = nodeName === undefined ? nodeType : `${nodeType} ${nodeName}`;
  return {
    ...record,
    name: http === undefined ? nodeTitle : `${http.method} ${http.route}`,
    isServer: http !== undefined,
    isError: hasFailed === true || (http !== undefined && http.status >= 500),
    attributes: {
      "flowgate.node.id": nodeId,
      "flowgate.node.type": nodeType,
      ...(nodeName !== undefined && { "flowgate.node.name": nodeName }),
      ...(flowId !== undefined && { "flowgate.flow.id": flowId }),
      ...(flowLabel !== undefined && { "flowgate.flow.label": flowLabel }),
      ...(subflowPath !== undefined && { "flowgate.subflow.path": [...subflowPath] }),
      ...(http !== undefined && { "http.request.method": http.method, "http.route": http.route }),
      // 0: the client has gone before a response.
      ...(http !== undefined && http.status > 0 && { "http.response.status_code": http.status }),
    },
  };
}
