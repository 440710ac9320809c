import { Agent, get } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Benchmark } from "./benchmark.ts";
import { deploy, functionFlows } from "./flows.ts";
import { openService } from "./server.ts";
import { quantile } from "./statistics.ts";

const everyMs = 2;

export const polling: Benchmark = {
  name: "polling",
  title: "GET /auth/login, one request at a time, while 10,000 function nodes are deployed and start",
  goal: { kind: "atMost", value: 20, unit: "ms" },
  async run({ profileDir }) {
    await using service = await openService({ profileDir });
    const body = JSON.stringify({ flows: functionFlows(10_000) });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const url = `${service.url}/auth/login`;
    for (let each = 0; each < 500; each++) {
      await timeOf(url, agent);
    }

    const started = performance.now();
    const progress = { deployedMs: 0 };
    const deploying = deploy(service, body, "full").finally(() => {
      progress.deployedMs = performance.now() - started;
    });
    const times: number[] = [];
    while (progress.deployedMs === 0) {
      const taken = await timeOf(url, agent);
      times.push(taken);
      await sleep(Math.max(0, everyMs - taken));
    }
    await deploying;
    agent.destroy();
    const p99 = quantile(times, 0.99);
    return {
      value: p99,
      rows: [
        {
          "": `${times.length} requests in ${(progress.deployedMs / 1000).toFixed(1)} s`,
          median: `${quantile(times, 0.5).toFixed(1)} ms`,
          p99: `${p99.toFixed(1)} ms`,
          max: `${quantile(times, 1).toFixed(1)} ms`,
        },
      ],
    };
  },
};

async function timeOf(url: string, agent: Agent): Promise<number> {
  const started = performance.now();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  get(url, { agent, timeout: 10_000 }, (response) => response.resume().once("end", resolve)).once("error", reject);
  await promise;
  return performance.now() - started;
}
