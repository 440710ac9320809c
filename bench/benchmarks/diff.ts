import { type Configuration, type FlowNode } from "@flowgate/flows";
import { diffFlows, formatDiff, mergeFlows, planDeployment } from "@flowgate/flows/compare";
import type { Benchmark, Effort, Result } from "../benchmark.ts";
import { functionFlows } from "../flows.ts";
import { formatSpread, median } from "../statistics.ts";

const nodes = 10_000;
const warmUps = 3;

const base = parse(() => ({}));
const few = parse((index) => (index % 100 === 1 ? { func: "return null;" } : {}));
const others = parse((index) => (index % 100 === 2 ? { func: "return null;" } : {}));
const all = parse((index) => ({ name: `new name ${index}`, x: index }));
const runtime = { knownTypes: undefined, isRunning: true };

const operations: Readonly<Record<string, () => unknown>> = {
  "diff, 1 % of the nodes changed": () => diffFlows(base, few),
  "diff, all nodes changed and in reverse order": () => diffFlows(base, { ...all, flows: all.flows.toReversed() }),
  "diff as text, all nodes changed": () => formatDiff(diffFlows(base, all), { base: base.flows, target: all.flows }),
  "plan, 1 % of the nodes changed": () => planDeployment(base, few, "flows", runtime),
  "merge of two changes of 1 % each": () => mergeFlows(base, few, others),
};

export const diff: Benchmark = {
  name: "diff",
  title: "Diff, plan and merge of 10,000 nodes: CPU time of the thread",
  async run({ starts, rounds }: Effort): Promise<Result> {
    const results = Object.entries(operations).map(([name, run]) => {
      const timesMs: number[] = [];
      for (let round = -warmUps; round < starts * rounds; round++) {
        const before = process.threadCpuUsage();
        run();
        const { user, system } = process.threadCpuUsage(before);
        if (round >= 0) {
          timesMs.push((user + system) / 1000);
        }
      }
      return { name, timesMs };
    });
    return {
      figures: results
        .slice(0, 2)
        .map(({ name, timesMs }) => ({
          title: `CPU time of a ${name}, of 10,000`,
          unit: "ms",
          values: timesMs,
          goal: { kind: "atMost", value: 100 },
        })),
      rows: results.map(({ name, timesMs }) => ({
        "": name,
        ms: formatSpread(timesMs),
        median: median(timesMs).toFixed(1),
      })),
      chart: [{ title: "CPU time, ms", bars: results.map(({ name, timesMs }) => ({ label: name, values: timesMs })) }],
    };
  },
};

/** Parsed from JSON like the flows of a revision, so that no two configurations share objects. */
function parse(change: (index: number) => Partial<FlowNode>): Configuration {
  const flows = functionFlows(nodes).map((node, index) => ({ ...node, ...change(index) }));
  return { flows: JSON.parse(JSON.stringify(flows)) as FlowNode[], credentials: new Map() };
}
