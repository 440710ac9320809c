import { Agent, get } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Benchmark, Effort, Result } from "../benchmark.ts";
import {
  deploy,
  deploymentBody,
  type DeploymentTarget,
  flowgateTarget,
  functionFlows,
  nodeRedTarget,
} from "../flows.ts";
import { openNodeRed } from "../peers/open.ts";
import { openService } from "../service.ts";
import { formatSpread, quantile } from "../statistics.ts";

const intervalMs = 2;
const warmUps = 500;

type Polled = {
  readonly name: string;
  readonly p99s: number[];
  readonly longest: number[];
  readonly seconds: number[];
};

export const polling: Benchmark = {
  name: "polling",
  title: "GET /auth/login, one at a time, while 10,000 function nodes are deployed and start",
  async run({ starts, profileDir }: Effort): Promise<Result> {
    const ours: Polled = { name: "Flowgate", p99s: [], longest: [], seconds: [] };
    const theirs: Polled = { name: "Node-RED", p99s: [], longest: [], seconds: [] };
    for (let start = 0; start < starts; start++) {
      await using service = await openService({ profileDir });
      await pollWhileStarting(ours, flowgateTarget(service));
      await using nodeRed = await openNodeRed();
      await pollWhileStarting(theirs, nodeRedTarget(nodeRed.url));
    }
    return {
      figures: [
        {
          title: "API p99 while 10,000 function nodes start",
          unit: "ms",
          values: ours.p99s,
          goal: { kind: "atMost", value: 5 },
        },
      ],
      rows: [ours, theirs].map(({ name, p99s, longest, seconds }) => ({
        "": name,
        "p99, ms": formatSpread(p99s),
        "longest, ms": formatSpread(longest),
        "deployment, s": formatSpread(seconds),
      })),
      chart: [{ title: "p99, ms", bars: [ours, theirs].map(({ name, p99s }) => ({ label: name, values: p99s })) }],
    };
  },
};

async function pollWhileStarting({ p99s, longest, seconds }: Polled, target: DeploymentTarget): Promise<void> {
  const body = deploymentBody(functionFlows(10_000));
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const url = `${target.url}/auth/login`;
  for (let each = 0; each < warmUps; each++) {
    await timeOf(url, agent);
  }
  const started = performance.now();
  const progress = { deployedMs: 0 };
  const deploying = deploy(target, body, "full").finally(() => {
    progress.deployedMs = performance.now() - started;
  });
  const times: number[] = [];
  while (progress.deployedMs === 0) {
    const elapsedMs = await timeOf(url, agent);
    times.push(elapsedMs);
    await sleep(Math.max(0, intervalMs - elapsedMs));
  }
  // Node-RED responds before all nodes have started.
  times.push(await timeOf(url, agent));
  await deploying;
  agent.destroy();
  p99s.push(quantile(times, 0.99));
  longest.push(Math.max(...times));
  seconds.push(progress.deployedMs / 1000);
}

async function timeOf(url: string, agent: Agent): Promise<number> {
  const started = performance.now();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  get(url, { agent, timeout: 30_000 }, (response) => response.resume().once("end", resolve)).once("error", reject);
  await promise;
  return performance.now() - started;
}
