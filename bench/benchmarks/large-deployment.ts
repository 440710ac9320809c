import type { Benchmark, Effort, Result } from "../benchmark.ts";
import { deploy, deploymentBody, flowgateTarget, changeFlows } from "../flows.ts";
import { openService } from "../service.ts";
import { formatSpread, median } from "../statistics.ts";

const MEGABYTE = 1_000_000;

/** Sizes of bodies, and the goals for the longest stall. */
const sizes = [
  { megabytes: 10, goalMs: 10 },
  { megabytes: 50, goalMs: 40 },
] as const;

export const largeDeployment: Benchmark = {
  name: "large-deployment",
  title: "The API's longest stall while a body of 10 or 50 MB is deployed; its nodes are on disabled tabs",
  async run({ starts, profileDir }: Effort): Promise<Result> {
    await using service = await openService({ profileDir }, { limits: { bodyBytes: 100 * MEGABYTE } });
    const target = flowgateTarget(service);
    const results = [];
    for (const { megabytes, goalMs } of sizes) {
      const flows = changeFlows(megabytes * MEGABYTE);
      const stallsMs: number[] = [];
      const timesMs: number[] = [];
      const bytes = deploymentBody(flows).length;
      for (let round = 0; round <= starts + 1; round++) {
        const body = deploymentBody(flows, round);
        const { maxMs } = await service.stallsDuring(async () => {
          const started = performance.now();
          await deploy(target, body, "full");
          timesMs.push(performance.now() - started);
        });
        stallsMs.push(maxMs);
      }
      // Omits the first deployment, during which code is compiled.
      results.push({
        megabytes,
        goalMs,
        nodes: flows.length,
        bytes,
        stallsMs: stallsMs.slice(1),
        timesMs: timesMs.slice(1),
      });
    }
    return {
      figures: results.map(({ megabytes, goalMs, stallsMs }) => ({
        title: `longest stall at a body of ${megabytes} MB`,
        unit: "ms",
        values: stallsMs,
        goal: { kind: "atMost", value: goalMs },
      })),
      rows: results.map(({ nodes, bytes, stallsMs, timesMs }) => ({
        body: `${(bytes / MEGABYTE).toFixed(1)} MB, ${nodes} nodes`,
        "longest stall, ms": formatSpread(stallsMs),
        "of all": Math.max(...stallsMs).toFixed(1),
        "client's time, ms": median(timesMs).toFixed(0),
      })),
      chart: [
        {
          title: "longest stall, ms",
          bars: results.map(({ megabytes, stallsMs }) => ({ label: `${megabytes} MB`, values: stallsMs })),
        },
      ],
    };
  },
};
