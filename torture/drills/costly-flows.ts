import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Code } from "@connectrpc/connect";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { tryDeploy } from "../../test/e2e/deploy.ts";
import { type Node, tab } from "../../test/e2e/flow-builders.ts";
import { bearer, json } from "../../test/e2e/rest.ts";
import { call, rpcProtocols } from "../../test/e2e/rpc.ts";
import { isRunning, type Service, startService } from "../../test/e2e/service.ts";
import { login, user } from "../../test/e2e/users.ts";
import type { Context, Size } from "../context.ts";
import { costlyShapes } from "../costly-flows.ts";
import type { Control, Drill } from "../drill.ts";
import { correct, overTcp } from "../operator.ts";
import { preload } from "../preload.ts";
import { readResources } from "../resources.ts";

export const costlyFlows: Drill = {
  name: "costly-flows",
  title: "Flows whose plan or comparison is costly",
  promise:
    "A caller with read access cannot stall or end the service with plans and comparisons: the event loop computes for at most 50 ms at a time, each call is answered or rejected within five seconds, and operators can deploy.",
  method:
    "Flows of 20 shapes and up to 4 MB are planned and compared with a read token over every protocol, four at a time, for ten minutes. Meanwhile an operator deploys such flows, conflicting ones and corrections, each within two seconds. The heap is limited to 512 MiB, the process to 1 GiB.",
  async run(context) {
    const { createFolder, pick, progress, size } = context;
    const corrections: number[] = [];
    await using attacked = await open(await createFolder());
    const { service, admin, violations } = attacked;
    const { rssMiB: beforeMiB } = await readResources(service.pid);
    const beganMs = Date.now();
    const endMs = performance.now() + pick(2_000, 600_000);
    const state: State = { flows: [tab("T")], revs: [], counts: new Map(), worstMs: 0, worst: "", done: 0 };
    const isOver = (): boolean =>
      (performance.now() > endMs && state.done >= minimumDone[size] && corrections.length >= pick(2, 50)) ||
      violations.has(ended);
    const attack = async (): Promise<void> => {
      while (!isOver()) {
        await attempt(attacked, state, context);
      }
    };
    const operate = async (): Promise<void> => {
      while (!isOver()) {
        if (!(await isRunning(service.pid))) {
          violations.add(ended);
          break;
        }
        progress(`${state.done} plans and comparisons`);
        await deployConflicts(attacked, state, context);
        const correction = await correct(overTcp(service, admin), state.flows, answerWithinMs.deployment);
        corrections.push(correction.ms);
        if (correction.problem !== undefined) {
          violations.add(correction.problem);
        }
        await delay(pick(1_000, 200));
      }
    };
    await Promise.all([operate(), ...Array.from({ length: 4 }, attack)]);
    const { peakMiB } = (await isRunning(service.pid)) ? await readResources(service.pid) : { peakMiB: Number.NaN };
    const stalls = (await attacked.readStalls()).filter(({ atMs }) => atMs > beganMs);
    const stallMs = Math.max(0, ...stalls.map(({ ms }) => ms));
    const longestCorrectionMs = Math.max(...corrections);
    return {
      loads: [
        { name: "plans and comparisons", count: state.done, minimum: minimumDone[size] },
        { name: "of them that succeeded", count: state.counts.get("ok") ?? 0, minimum: minimumDone[size] / 4 },
        { name: "corrective deployments", count: corrections.length, minimum: pick(2, 50) },
      ],
      figures: [
        { name: "rejected with limit_exceeded", value: state.counts.get("limit_exceeded") ?? 0, unit: "" },
        { name: "longest time that the event loop computed", value: stallMs, unit: "ms" },
        { name: "longest time of an answer", value: state.worstMs, unit: "ms" },
        { name: "longest time of a corrective deployment", value: longestCorrectionMs, unit: "ms" },
        { name: "memory before", value: beforeMiB, unit: "MiB" },
        { name: "highest memory", value: peakMiB, unit: "MiB" },
      ],
      violations: [
        ...violations,
        ...checkTimes(size, { stallMs, answerMs: state.worstMs, answer: state.worst }),
        ...(longestCorrectionMs > correctWithinMs[size]
          ? [`a correction took ${longestCorrectionMs.toFixed(0)} ms`]
          : []),
        ...(peakMiB > maxMiB ? [`memory was ${peakMiB.toFixed(0)} MiB`] : []),
      ],
      controls: [await withoutThreads(context), await withoutLimit(context)],
    };
  },
};

const ended = "the service has ended";
/** Small sizes also run on machines that are busy with other work. */
const stallWithinMs = { quick: 250, full: 50 } satisfies Record<Size, number>;
/** The limit of the service is 5 s; sending and receiving megabytes takes time as well. */
const readWithinMs = { quick: 40_000, full: 6_000 } satisfies Record<Size, number>;
const correctWithinMs = { quick: 40_000, full: 2_000 } satisfies Record<Size, number>;
const minimumDone = { quick: 20, full: 300 } satisfies Record<Size, number>;
const answerWithinMs = { deployment: 40_000 };
const maxMiB = 1_024;

type Attacked = AsyncDisposable & {
  readonly service: Service;
  readonly admin: { authorization: string };
  readonly reader: { authorization: string };
  readonly violations: Set<string>;
  /** How long the event loop has computed, where that was long. */
  readStalls(): Promise<{ readonly atMs: number; readonly ms: number }[]>;
};

type State = {
  /** The active flows. */
  flows: Node[];
  revs: string[];
  readonly counts: Map<string, number>;
  worstMs: number;
  /** The shape of the slowest answer. */
  worst: string;
  done: number;
};

/** Starts a service that measures its event loop, with the modules of `imports` preloaded. */
async function open(dataDir: string, imports: readonly string[] = [], limits: object = {}): Promise<Attacked> {
  const file = join(dataDir, "event-loop");
  await writeFile(file, "");
  const service = await startService({
    config: {
      adminAuth: { users: [user("admin", "*"), user("reader", "read")] },
      runtime: { mode: "none" },
      log: { level: "error" },
      limits,
    },
    dataDir,
    env: {
      EVENT_LOOP_METER: file,
      MALLOC_ARENA_MAX: "2",
      NODE_OPTIONS: ["--max-old-space-size=512", preload("event-loop-meter").NODE_OPTIONS, ...imports].join(" "),
    },
  });
  return {
    service,
    admin: bearer(await login(service, { username: "admin" })),
    reader: bearer(await login(service, { username: "reader", scope: "read" })),
    violations: new Set(),
    async readStalls() {
      const lines = (await readFile(file, "utf8")).split("\n").filter((line) => line !== "");
      return lines.map((line) => line.split(" ").map(Number)).map(([atMs = 0, ms = 0]) => ({ atMs, ms }));
    },
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  };
}

/** Picks a shape, and a size from 1 KB to `maxBytes`. */
function pickShape(
  { random, pick }: Context,
  maxBytes = pick(300_000, 4_000_000),
): { readonly name: string; readonly flows: Node[] } {
  const shapes = Object.entries(costlyShapes);
  const [name, make] = shapes[Math.floor(shapes.length * random())] as (typeof shapes)[number];
  // Half of them are small enough for deployments that are prepared on the event loop.
  const bytes = random() < 0.5 ? 1_000 * 60 ** random() : 60_000 * (maxBytes / 60_000) ** random();
  return { name, flows: make(bytes, random) };
}

/** A call that a reader makes. */
type Reading = { readonly name: string; readonly make: () => Promise<string> };

/** Makes one plan or comparison, and notes the outcome. */
async function attempt(attacked: Attacked, state: State, context: Context): Promise<void> {
  const { violations } = attacked;
  const { random } = context;
  const { name, make } =
    random() < 0.2 && state.revs.length > 1 ? comparison(attacked, state, random) : plan(attacked, context);
  const beganMs = performance.now();
  try {
    const outcome = await make();
    state.counts.set(outcome, (state.counts.get(outcome) ?? 0) + 1);
    if (!expected.has(outcome)) {
      violations.add(`${name}: ${outcome}`);
    }
  } catch (error) {
    violations.add(`${name} was not answered: ${String(error)}`);
    // Avoids a busy loop after the service has ended.
    await delay(50);
  }
  state.done++;
  const ms = performance.now() - beganMs;
  if (ms > state.worstMs) {
    state.worstMs = ms;
    state.worst = name;
  }
}

/** Some shapes are not valid flows, and revisions are removed from the history. */
const expected: ReadonlySet<string> = new Set(["ok", "limit_exceeded", "invalid_flows", "not_found"]);

function plan({ service, reader }: Attacked, context: Context): Reading {
  const protocols = Object.entries(rpcProtocols);
  const [protocol, transport] = protocols[Math.floor((protocols.length + 3) * context.random())] ?? ["REST"];
  if (transport === undefined) {
    const { name, flows } = pickShape(context);
    return { name: `${name} over REST`, make: () => planOverRest({ service, reader }, JSON.stringify(flows)) };
  }
  // Encoding and decoding large messages takes this process as long as the service.
  const { name, flows } = pickShape(context, context.pick(300_000, 500_000));
  const input = { flows: flows.map(({ id, type, ...properties }) => ({ id, type, properties: properties as object })) };
  return {
    name: `${name} over ${protocol}`,
    make: async () => {
      const outcome = await call(transport(service.url), FlowsService.method.planFlows, input as object, reader);
      return "message" in outcome ? "ok" : (outcome.refused.reason ?? Code[outcome.refused.code]);
    },
  };
}

async function planOverRest({ service, reader }: Pick<Attacked, "service" | "reader">, body: string): Promise<string> {
  const reply = await service.send("POST", "/flows:plan", { headers: { ...json, ...reader }, body });
  return reply.status === 200 ? "ok" : codeOf(reply.status, reply.body);
}

function comparison({ service, reader }: Attacked, { revs }: State, random: () => number): Reading {
  const pick = (): string => revs[Math.floor(revs.length * random())] ?? "";
  const query = random() < 0.5 ? "restarts=true" : `base=${pick()}`;
  const path = `/revisions/${pick()}:diff?${query}`;
  return {
    name: "a comparison",
    make: async () => {
      const { status, body } = await service.send("GET", path, { headers: reader });
      return status === 200 ? "ok" : codeOf(status, body);
    },
  };
}

function codeOf(status: number, body: string): string {
  const { code = String(status) } = JSON.parse(body) as { code?: string };
  return code;
}

/** Deploys flows of a shape, then conflicting changes of the revision before. */
async function deployConflicts({ service, admin, violations }: Attacked, state: State, context: Context) {
  const { name, flows } = pickShape(context);
  const first = await tryDeploy(service, { flows }, "full", admin);
  if (first.status !== 200) {
    return;
  }
  state.flows = flows;
  const { rev } = first.json() as { rev: string };
  const changed = flows.map((node, at) => ({ ...node, info: at }));
  await tryDeploy(service, { flows: changed }, "full", admin);
  state.revs = [...state.revs, rev].slice(-10);
  for (const headers of [admin, { ...admin, "service-deployment-merge": "true" }]) {
    const others = flows.map((node, at) => ({ ...node, info: -at }));
    const { status, body } = await tryDeploy(service, { flows: others, rev }, "full", headers);
    if (status !== 409 && status !== 200 && status !== 429) {
      violations.add(`a conflict of ${name}: ${status} ${body.slice(0, 200)}`);
    }
  }
}

type Times = { readonly stallMs: number; readonly answerMs: number; readonly answer: string };

function checkTimes(size: Size, { stallMs, answerMs, answer }: Times, withinMs = readWithinMs[size]): string[] {
  return [
    ...(stallMs > stallWithinMs[size] ? [`the event loop computed for ${stallMs} ms`] : []),
    ...(answerMs > withinMs ? [`the answer to ${answer} took ${answerMs.toFixed(0)} ms`] : []),
  ];
}

async function withoutThreads({ createFolder, size }: Context): Promise<Control> {
  const fixture = preload("analysis-on-the-event-loop").NODE_OPTIONS;
  await using attacked = await open(await createFolder(), [fixture]);
  const beganMs = Date.now();
  await planOverRest(attacked, JSON.stringify([tab("T")]));
  // Longer than the meter waits.
  await delay(100);
  const stalls = (await attacked.readStalls()).filter(({ atMs }) => atMs > beganMs);
  const stallMs = Math.max(0, ...stalls.map(({ ms }) => ms));
  return {
    planted: "each plan computes on the event loop for 300 ms",
    found: checkTimes(size, { stallMs, answerMs: 0, answer: "" }),
  };
}

async function withoutLimit({ createFolder, pick, size }: Context): Promise<Control> {
  const fixture = `--import=${new URL("../../test/fixtures/analysis/hanging.ts", import.meta.url).href}`;
  await using attacked = await open(await createFolder(), [fixture], { analysisMs: 3_600_000 });
  const { service, reader } = attacked;
  const beganMs = performance.now();
  const headers = { ...json, ...reader };
  // It computes without an end for as long as this waits.
  const withinMs = pick(1_000, readWithinMs.full);
  const signal = AbortSignal.timeout(withinMs + 500);
  await service
    .send("POST", "/flows:plan", { headers, body: JSON.stringify([tab("hang")]), signal })
    .catch((error: unknown) => {
      if (!signal.aborted) {
        throw error;
      }
    });
  const answerMs = performance.now() - beganMs;
  return {
    planted: "a comparison never ends, and has no time limit",
    found: checkTimes(size, { stallMs: 0, answerMs, answer: "it" }, withinMs),
  };
}
