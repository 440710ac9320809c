import type { Benchmark } from "./benchmark.ts";
import { deploy, type FlowNode, functionFlows } from "./flows.ts";
import { openService } from "./server.ts";
import { median, quantile } from "./statistics.ts";

const warmUps = 5;

export const stall: Benchmark = {
  name: "stall",
  title: "The event loop's longest stall while one node of 10,000 is deployed (POST /flows, v2, nodes)",
  goal: { kind: "atMost", value: 60, unit: "ms" },
  async run({ rounds, profileDir }) {
    await using service = await openService({ profileDir });
    const flows = functionFlows(10_000);
    await deploy(service, JSON.stringify({ flows }), "full");
    for (let each = 1; each <= warmUps; each++) {
      await deploy(service, bodyWithChange(flows, -each), "nodes");
    }
    const longest: number[] = [];
    const p99s: number[] = [];
    const times: number[] = [];
    for (let round = 0; round < 2 * rounds; round++) {
      const body = bodyWithChange(flows, round);
      const stalls = await service.stallsDuring(async () => {
        const started = performance.now();
        await deploy(service, body, "nodes");
        times.push(performance.now() - started);
      });
      longest.push(stalls.maxMs);
      p99s.push(stalls.p99Ms);
    }
    return {
      value: Math.max(...longest),
      rows: [row("longest stall", longest), row("p99 of the loop's delay", p99s), row("answered after", times)],
    };
  },
};

/** One function node does something else. */
function bodyWithChange(flows: readonly FlowNode[], round: number): string {
  const at = flows.length - 1;
  return JSON.stringify({ flows: flows.with(at, { ...(flows[at] as FlowNode), func: `return { round: ${round} };` }) });
}

function row(name: string, values: readonly number[]) {
  return {
    [`${values.length} deployments`]: name,
    min: `${quantile(values, 0).toFixed(1)} ms`,
    median: `${median(values).toFixed(1)} ms`,
    max: `${quantile(values, 1).toFixed(1)} ms`,
  };
}
