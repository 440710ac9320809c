import { setTimeout as delay } from "node:timers/promises";
import { formatNumber } from "../../bench/statistics.ts";
import { readRuntime, tryDeploy } from "../../test/e2e/deploy.ts";
import { endpoint } from "../../test/e2e/flow-builders.ts";
import { bearer, send } from "../../test/e2e/rest.ts";
import { eventually, type Service, startService } from "../../test/e2e/service.ts";
import { login, user } from "../../test/e2e/users.ts";
import { freePort } from "../../test/free-port.ts";
import type { Context } from "../context.ts";
import type { Drill } from "../drill.ts";
import { hostileFlows as flows } from "../hostile-flows.ts";
import { correct, type Correction, observe, type Observation, overTcp } from "../operator.ts";

export const hostileFlows: Drill = {
  name: "hostile-flows",
  title: `${Object.keys(flows).length} hostile flows`,
  promise:
    "Flows cannot take the API down: while a flow blocks, crashes, floods or exhausts the runtime, operators can read and deploy, and a corrective deployment runs.",
  method:
    "Each flow of [hostile-flows.ts](../torture/hostile-flows.ts) is deployed: crashes, hangs, memory exhaustion, garbage on the channel to the service, floods, polluted prototypes. Meanwhile all calls of an operator have to succeed. Then a corrective deployment has to be accepted and its endpoint has to respond.",
  limits:
    "Latencies are figures, not limits. Code that escapes from a node into the runtime is contained by the process, not by the language.",
  async run(context) {
    const { createFolder, pick } = context;
    const port = await freePort();
    // By default, flows can't connect to this port: these are hostile ones that have found a way.
    const runtime = { ...config.runtime, network: { allow: ["*", `*:${port}`] } };
    await using service = await startService({ port, config: { ...config, runtime }, dataDir: await createFolder() });
    const token = bearer(await login(service, { username: "admin" }));
    const results: HostileResult[] = [];
    for (const name of choose(context)) {
      context.progress(name);
      results.push(
        await deployHostile(service, token, name, pick({ dwellMs: 250, pauseMs: 40 }, { dwellMs: 3_000, pauseMs: 10 })),
      );
    }
    const broken = await respondsWith(service, token, "another number", 0);
    const times = results.map(({ correction }) => correction.ms).toSorted((one, other) => one - other);
    return {
      loads: [
        { name: "hostile flows", count: results.length, minimum: pick(4, 28) },
        {
          name: "calls of the operator",
          count: results.reduce((sum, { observed }) => sum + observed.calls, 0),
          minimum: pick(40, 2_000),
        },
      ],
      figures: [
        {
          name: "worst p99 of health and settings",
          value: Math.max(...results.map(({ observed }) => observed.p99Ms)),
          unit: "ms",
        },
        { name: "median time of a corrective deployment", value: times[Math.floor(times.length / 2)] ?? 0, unit: "ms" },
        { name: "longest time of a corrective deployment", value: times.at(-1) ?? 0, unit: "ms" },
      ],
      rows: results.map(({ name, observed, correction }) => ({
        flow: name,
        "p99 of health and settings": `${formatNumber(observed.p99Ms)} ms`,
        "corrective deployment": `${formatNumber(correction.ms)} ms`,
      })),
      violations: results.flatMap(({ violations }) => violations),
      controls: [{ planted: "a correction with another response", found: broken }],
    };
  },
};

const config = {
  adminAuth: { users: [user("admin", "*")] },
  log: { level: "error" },
  runtime: { maxOldSpaceMb: 128, deadlineMs: 4_000, nodeCloseTimeoutMs: 1_000, restart: { maxBackoffMs: 500 } },
};

function choose({ pick, random }: Context): readonly string[] {
  const names = Object.keys(flows);
  const shuffled = names.map((name) => ({ name, key: random() })).toSorted((one, other) => one.key - other.key);
  return pick(
    shuffled.slice(0, 4).map(({ name }) => name),
    names,
  );
}

type Token = { readonly authorization: string };

type HostileResult = {
  readonly name: string;
  readonly observed: Observation;
  readonly correction: Correction;
  readonly violations: readonly string[];
};

type Pace = { readonly dwellMs: number; readonly pauseMs: number };

async function deployHostile(
  service: Service,
  token: Token,
  name: string,
  { dwellMs, pauseMs }: Pace,
): Promise<HostileResult> {
  const way = overTcp(service, token);
  const observing = await observe(way, pauseMs);
  // Flows that hang are answered when their deadline has passed; the correction does not wait for that.
  const deployed = tryDeploy(way, { flows: flows[name]?.({ port: service.port }) ?? [] }).catch(() => undefined);
  await Promise.race([deployed, delay(1_000)]);
  await delay(dwellMs);
  const number = `${Date.now()}`;
  const correction = await correct(way, endpoint("/ok", `msg.payload = "${number}"`));
  const observed = await observing.end();
  const unhealthy = [...observed.failures].map(([failure, count]) => `${failure} (${count} times)`);
  const problems = [
    ...unhealthy,
    ...(correction.problem === undefined ? [] : [correction.problem]),
    ...(await respondsWith(service, token, number, 30_000)),
  ];
  await deployed;
  return { name, observed, correction, violations: problems.map((problem) => `${name}: ${problem}`) };
}

/** Describes the response of the corrected endpoint if it is another one than expected. */
async function respondsWith(service: Service, token: Token, expected: string, withinMs: number): Promise<string[]> {
  try {
    await eventually(async () => {
      const { httpPort } = await readRuntime(service, token);
      const { body } = await send(`http://127.0.0.1:${httpPort}`, "GET", "/ok", { signal: AbortSignal.timeout(5_000) });
      if (body !== expected) {
        throw new Error(`the corrected endpoint responds with ${body.slice(0, 100)}`);
      }
    }, withinMs);
    return [];
  } catch (error) {
    return [String(error)];
  }
}
