import type { Benchmark, Effort, Result, Row } from "../benchmark.ts";
import {
  deploy,
  deploymentBody,
  type DeploymentTarget,
  flowgateTarget,
  functionFlows,
  nodeRedTarget,
} from "../flows.ts";
import { openNodeRed } from "../peers/open.ts";
import type { Server } from "../server.ts";
import { openService } from "../service.ts";
import { formatSpread, median } from "../statistics.ts";

const warmUps = 5;

type Contender = {
  readonly name: string;
  readonly server: Server;
  readonly target: DeploymentTarget;
  readonly stallsMs: number[];
  readonly timesMs: number[];
  readonly cpuMs: number[];
};

export const deployment: Benchmark = {
  name: "deployment",
  title: "Deployment of 10,000 nodes with one changed (POST /flows, v2, nodes), beside Node-RED's own admin API",
  async run({ starts, rounds, profileDir }: Effort): Promise<Result> {
    await using service = await openService({ profileDir });
    await using nodeRed = await openNodeRed();
    const contenders: Contender[] = [
      { name: "Flowgate", server: service, target: flowgateTarget(service), stallsMs: [], timesMs: [], cpuMs: [] },
      { name: "Node-RED", server: nodeRed, target: nodeRedTarget(nodeRed.url), stallsMs: [], timesMs: [], cpuMs: [] },
    ];
    const flows = functionFlows(10_000);
    for (const { target } of contenders) {
      await deploy(target, deploymentBody(flows), "full");
      for (let each = 1; each <= warmUps; each++) {
        await deploy(target, deploymentBody(flows, -each), "nodes");
      }
    }
    for (let round = 1; round <= starts * rounds; round++) {
      const body = deploymentBody(flows, round);
      for (const contender of contenders) {
        await measure(contender, body);
      }
    }
    const [ours, theirs] = contenders.map(({ timesMs }) => timesMs);
    return {
      figures: [
        {
          title: "deployment of 10,000 nodes, one changed: longest stall of the API's event loop",
          unit: "ms",
          values: contenders[0]?.stallsMs ?? [],
          goal: { kind: "atMost", value: 4 },
        },
        {
          title: "… the client's time, of Node-RED's",
          unit: "x",
          values: ours?.map((ms, at) => ms / (theirs?.[at] ?? Number.NaN)) ?? [],
          goal: { kind: "atMost", value: 0.65 },
        },
      ],
      rows: contenders.map(rowOf),
      chart: [
        { title: "client's time, ms", bars: contenders.map(({ name, timesMs }) => ({ label: name, values: timesMs })) },
        {
          title: "longest stall, ms",
          bars: contenders.map(({ name, stallsMs }) => ({ label: name, values: stallsMs })),
        },
      ],
    };
  },
};

async function measure({ server, target, stallsMs, timesMs, cpuMs }: Contender, body: string): Promise<void> {
  const before = await server.usage();
  const { maxMs } = await server.stallsDuring(async () => {
    const started = performance.now();
    await deploy(target, body, "nodes");
    timesMs.push(performance.now() - started);
  });
  const after = await server.usage();
  stallsMs.push(maxMs);
  cpuMs.push(after.cpuMs - before.cpuMs);
}

function rowOf({ name, stallsMs, timesMs, cpuMs }: Contender): Row {
  return {
    [`${stallsMs.length} deployments`]: name,
    "client's time, ms": formatSpread(timesMs),
    "longest stall, ms": formatSpread(stallsMs),
    "of all": Math.max(...stallsMs).toFixed(1),
    "CPU of the API's process, ms": median(cpuMs).toFixed(0),
  };
}
