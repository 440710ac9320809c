import { expect, test } from "vitest";
import { FlowStats } from "../src/flow-stats.ts";
import { type Measurements, type TabMeasurement, parseMeasurements } from "../src/measurements.ts";
import { parseFromChild } from "../src/messages.ts";
import { cutText } from "../src/node-events.ts";
import { buckets } from "@flowgate/base/series";

const noDurations = { count: 0, seconds: 0, counts: [] };

function report(tabs: readonly Partial<TabMeasurement>[], nodes: readonly object[] = [], cpuSeconds = 1): Measurements {
  const tab = { tab: "T", label: "Orders", messages: 1, errors: 0, durations: noDurations, responses: {} };
  const parsed = parseMeasurements(
    {
      process: { heapBytes: 5, heapLimitBytes: 50, rssBytes: 9, lagSeconds: 0.1, cpuSeconds, seconds: 1 },
      tabs: tabs.map((init) => ({ ...tab, responseDurations: noDurations, ...init })),
      nodes: nodes.map((init) => ({
        tab: "T",
        type: "function",
        messages: 1,
        errors: 0,
        count: 0,
        seconds: 0,
        ...init,
      })),
    },
    cutText,
  );
  if (parsed === undefined) {
    throw new Error("the report is not valid");
  }
  return parsed;
}

function statsUnderTest() {
  let nowMs = 0;
  const stats = new FlowStats(() => nowMs);
  return { stats, pass: (ms: number) => void (nowMs += ms) };
}

const hourMs = 60 * 60_000;

test("sums up reports, also of several processes", () => {
  const { stats } = statsUnderTest();
  const durations = { count: 3, seconds: 20.5, counts: [1, 1] };
  const responses = { "2xx": 2 } as const;
  stats.add(
    report([{ messages: 3, errors: 1, durations, responses }], [{ node: "n", messages: 3, count: 2, seconds: 1 }]),
  );
  stats.add(report([{ messages: 4, durations, label: "New" }], [{ node: "n", errors: 1, count: 1 }]));
  const [tab] = [...stats.tabs()];
  expect(tab).toMatchObject({ tab: "T", label: "New", messages: 7, errors: 1, responses: new Map([["2xx", 2]]) });
  const samples = [...(tab?.durations.samples("d") ?? [])];
  expect(samples[0]).toEqual({ metricName: "d_bucket", labels: { tab: "T", le: String(buckets[0]) }, value: 2 });
  expect(samples.slice(-3).map(({ value }) => value)).toEqual([6, 41, 6]);
  expect([...stats.nodes()]).toEqual([
    { tab: "T", node: "n", type: "function", messages: 4, errors: 1, count: 3, seconds: 1 },
  ]);
  expect(stats.cpuSeconds()).toBe(2);
});

test("forgets the state of a process that no longer reports", () => {
  const { stats, pass } = statsUnderTest();
  expect(stats.process()).toBeUndefined();
  pass(hourMs);
  stats.add(report([]));
  expect(stats.process()).toEqual({
    heapBytes: 5,
    heapLimitBytes: 50,
    rssBytes: 9,
    lagSeconds: 0.1,
    cpuSeconds: 1,
    seconds: 1,
  });
  pass(10_000);
  expect(stats.process()).toBeUndefined();
});

test("tells a bounded number of tabs and nodes apart, of which those that are not used make room", () => {
  const { stats, pass } = statsUnderTest();
  const ids = Array.from({ length: 5_000 }, (_, index) => `t${index}`);
  for (const id of ids) {
    stats.add(report([{ tab: id }], [{ node: id }]));
  }
  expect([[...stats.tabs()].length, [...stats.nodes()].length]).toEqual([201, 2_001]);
  expect([...stats.tabs()].at(-1)).toMatchObject({ tab: "(others)", label: "(others)", messages: 4_800 });
  expect([...stats.nodes()].at(-1)).toMatchObject({ tab: "(others)", node: "(others)", messages: 3_000 });
  pass(hourMs);
  stats.add(report([{ tab: "new" }]));
  const tabs = [...stats.tabs()].map(({ tab }) => tab);
  expect([tabs.length, tabs.includes("t0"), tabs.includes("new")]).toEqual([201, false, true]);
});

test("a report of the process is checked, since flows can write it too", () => {
  const parse = (fields: object) => parseFromChild({ kind: "measurements", ...fields }, cutText);
  expect(parse({})).toBeUndefined();
  expect(parse({ process: {}, tabs: [{ tab: 7 }, null, "x"], nodes: [{}] })).toMatchObject({
    process: { heapBytes: 0, heapLimitBytes: 0, rssBytes: 0, lagSeconds: 0, cpuSeconds: 0, seconds: 0 },
    tabs: [{ tab: "", label: "", messages: 0, responses: {}, durations: { count: 0 } }],
    nodes: [{ node: "", messages: 0 }],
  });
  const huge = { tab: "x".repeat(1_000), messages: 1e300, errors: -1, responses: { "9xx": 1, "2xx": Number.NaN } };
  const parsed = parse({
    process: { cpuSeconds: Infinity },
    tabs: Array.from({ length: 1_000 }, () => huge),
    nodes: [],
  }) as Measurements;
  expect(parsed.tabs).toHaveLength(40);
  expect(parsed.tabs[0]).toMatchObject({ tab: "x".repeat(128), messages: 1e9, errors: 0, responses: { "2xx": 0 } });
  expect(parsed.process.cpuSeconds).toBe(1e9);
});
