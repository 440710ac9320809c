import { type Fields, isFields } from "@flowgate/base/fields";
import type { ProcessMeasurement } from "@flowgate/base/process-meter";
import { type Durations, type Series, buckets } from "@flowgate/base/series";
import type { ReadText } from "./node-events.ts";

// What the child measures of the flows. Flows can write these messages too: values are checked and limited.

/** The measurements of a tab. */
export type TabReading = {
  /** The id; empty for nodes on no tab. */
  readonly tab: string;
  readonly label: string;
  readonly messages: number;
  readonly errors: number;
  readonly durations: Series;
  /** By the hundred of their status, such as "2xx". */
  readonly responses: ReadonlyMap<string, number>;
  readonly responseDurations: Series;
};

/** The same of one node, by its id in the flows. */
export type NodeReading = {
  readonly tab: string;
  readonly node: string;
  readonly type: string;
  readonly messages: number;
  readonly errors: number;
  readonly count: number;
  readonly seconds: number;
};

/** The measurements of a tab since the last report. */
export type TabMeasurement = Pick<TabReading, "tab" | "label" | "messages" | "errors"> & {
  readonly durations: Durations;
  /** Responses of HTTP-in nodes, by the hundred of their status. */
  readonly responses: Readonly<Partial<Record<ResponseClass, number>>>;
  readonly responseDurations: Durations;
};

export type NodeMeasurement = NodeReading;

export type Measurements = {
  readonly kind: "measurements";
  readonly process: ProcessMeasurement;
  readonly tabs: readonly TabMeasurement[];
  readonly nodes: readonly NodeMeasurement[];
};

const responseClasses = ["1xx", "2xx", "3xx", "4xx", "5xx"] as const;

export type ResponseClass = (typeof responseClasses)[number];

/** The time between two reports. */
export const reportMs = 1_000;

/** The limits of one report. Its line has to be shorter than the channel permits. */
export const maxReportedTabs = 40;
export const maxReportedNodes = 100;
export const maxMeasuredIdChars = 128;

/** More in a second are not real. */
const maxCount = 1e9;

/** Undefined if it is not valid. */
export function parseMeasurements({ process, tabs, nodes }: Fields, read: ReadText): Measurements | undefined {
  if (!isFields(process) || !Array.isArray(tabs) || !Array.isArray(nodes)) {
    return undefined;
  }
  return {
    kind: "measurements",
    process: {
      heapBytes: parseNumber(process["heapBytes"], Number.MAX_SAFE_INTEGER),
      heapLimitBytes: parseNumber(process["heapLimitBytes"], Number.MAX_SAFE_INTEGER),
      rssBytes: parseNumber(process["rssBytes"], Number.MAX_SAFE_INTEGER),
      lagSeconds: parseNumber(process["lagSeconds"]),
      cpuSeconds: parseNumber(process["cpuSeconds"]),
      seconds: parseNumber(process["seconds"]),
    },
    tabs: tabs
      .slice(0, maxReportedTabs)
      .filter(isFields)
      .map((tab) => parseTab(tab, read)),
    nodes: nodes
      .slice(0, maxReportedNodes)
      .filter(isFields)
      .map((node) => parseNode(node, read)),
  };
}

function parseTab(
  { tab, label, messages, errors, durations, responses, responseDurations }: Fields,
  read: ReadText,
): TabMeasurement {
  const counts = isFields(responses) ? responses : {};
  return {
    tab: parseId(tab, read),
    label: parseId(label, read),
    messages: parseNumber(messages),
    errors: parseNumber(errors),
    durations: parseDurations(durations),
    responses: Object.fromEntries(
      responseClasses.filter((each) => counts[each] !== undefined).map((each) => [each, parseNumber(counts[each])]),
    ),
    responseDurations: parseDurations(responseDurations),
  };
}

function parseNode({ tab, node, type, messages, errors, count, seconds }: Fields, read: ReadText): NodeMeasurement {
  return {
    tab: parseId(tab, read),
    node: parseId(node, read),
    type: parseId(type, read),
    messages: parseNumber(messages),
    errors: parseNumber(errors),
    count: parseNumber(count),
    seconds: parseNumber(seconds),
  };
}

function parseDurations(value: unknown): Durations {
  const { count, seconds, counts } = isFields(value) ? value : ({} as Fields);
  const list: readonly unknown[] = Array.isArray(counts) ? counts : [];
  return {
    count: parseNumber(count),
    seconds: parseNumber(seconds),
    counts: buckets.map((_, index) => parseNumber(list[index])),
  };
}

function parseId(value: unknown, read: ReadText): string {
  return typeof value === "string" ? read(value, maxMeasuredIdChars) : "";
}

function parseNumber(value: unknown, max = maxCount): number {
  return typeof value === "number" && value >= 0 ? Math.min(value, max) : 0;
}
