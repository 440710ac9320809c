import { type Fields, isFields } from "@flowgate/base/fields";
import { type NodeRef, type ReadText, parseNodeRef } from "./node-events.ts";

// What the child records of the messages of flows. Flows can write these messages too: values are checked and limited.

/** The handling of a message by a node, or the start of a flow by a node. */
export type FlowSpan = NodeRef & {
  /** Lowercase hex, as in W3C Trace Context. */
  readonly traceId: string;
  readonly spanId: string;
  /** Absent: the trace begins with this span. */
  readonly parentSpanId?: string;
  /** In Unix time. */
  readonly startMs: number;
  readonly endMs: number;
  /** A request to this HTTP-in node. */
  readonly http?: HttpExchange;
  readonly hasFailed?: true;
};

export type HttpExchange = { readonly method: string; readonly route: string; readonly status: number };

export type FlowSpans = {
  readonly kind: "spans";
  readonly spans: readonly FlowSpan[];
  /** How many are missing. */
  readonly dropped: number;
};

/** Where spans of flows go. */
export type FlowTraces = {
  /** The fraction of messages that is traced, if their caller has not decided. */
  readonly sampleRatio: number;
  record(spans: Pick<FlowSpans, "spans" | "dropped">): void;
};

const maxSpanMs = 24 * 60 * 60_000;

/** More than a report of the child has. */
const maxSpans = 500;

export const maxRouteChars = 256;

/** Ignores spans that are not valid; undefined if the message is not. */
export function parseFlowSpans({ spans, dropped }: Fields, read: ReadText): FlowSpans | undefined {
  if (!Array.isArray(spans)) {
    return undefined;
  }
  return {
    kind: "spans",
    spans: spans.slice(0, maxSpans).flatMap((span: unknown) => (isFields(span) ? (parseSpan(span, read) ?? []) : [])),
    dropped: typeof dropped === "number" && dropped >= 0 ? Math.min(Math.floor(dropped), 1e9) : 0,
  };
}

function parseSpan(fields: Fields, read: ReadText): FlowSpan | undefined {
  const { nodeId, ...node } = parseNodeRef(fields, read);
  const { traceId, spanId, parentSpanId, startMs, endMs, http, hasFailed } = fields;
  if (nodeId === undefined || !isId(traceId, 32) || !isId(spanId, 16) || !isTime(startMs) || !isTime(endMs)) {
    return undefined;
  }
  return {
    nodeId,
    ...node,
    traceId,
    spanId,
    ...(isId(parentSpanId, 16) && { parentSpanId }),
    startMs: Math.max(startMs, endMs - maxSpanMs),
    endMs: Math.max(startMs, endMs),
    ...(isFields(http) && { http: parseExchange(http, read) }),
    ...(hasFailed === true && { hasFailed }),
  };
}

function parseExchange({ method, route, status }: Fields, read: ReadText): HttpExchange {
  return {
    method: typeof method === "string" && /^[A-Z]{1,16}$/.test(method) ? method : "_OTHER",
    route: typeof route === "string" ? read(route, maxRouteChars) : "",
    status: typeof status === "number" && status >= 100 && status <= 599 ? Math.floor(status) : 0,
  };
}

/** Not all zeros, see W3C Trace Context, sections 3.2.2.3 and 3.2.2.4. */
function isId(value: unknown, length: number): value is string {
  return typeof value === "string" && value.length === length && /^(?!0+$)[\da-f]+$/.test(value);
}

function isTime(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value <= 8.64e15;
}
