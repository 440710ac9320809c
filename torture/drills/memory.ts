import { setTimeout as delay } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { tab } from "../../test/e2e/flow-builders.ts";
import { bearer, json, type Reply } from "../../test/e2e/rest.ts";
import { isRunning, type Service, startService } from "../../test/e2e/service.ts";
import { login, user } from "../../test/e2e/users.ts";
import type { Context, Size } from "../context.ts";
import type { Control, Drill } from "../drill.ts";
import { correct, type Correction, overSocket, overTcp, type Way } from "../operator.ts";
import { readResources } from "../resources.ts";

export const memory: Drill = {
  name: "memory",
  title: "Compressed bodies that use up the memory",
  promise:
    "Requests cannot exhaust the memory of the API process: beyond a budget they are rejected with 503 before they are decompressed, operators can deploy, and the memory is released afterwards.",
  method:
    "60 clients that may deploy repeatedly send gzip bodies of 16 KB that hold 16 MB of JSON to a service with a heap of 512 MiB and a budget of 256 MiB. Peak memory may grow by the budget at most, and each body has to be answered. Operators deploy corrections within two seconds. A minute after the attack, at most 128 MiB of the growth may remain.",
  async run(context) {
    const { createFolder, pick, progress, size } = context;
    const corrections: Correction[] = [];
    const attacked = await attack(
      await createFolder(),
      { memoryWaitMs: pick(2_000, 5_000) },
      async ({ service, replies, ways }) => {
        const endMs = performance.now() + pick(0, 60_000);
        const isVoid = (): boolean =>
          corrections.length < pick(2, 10) * ways.length ||
          replies.decoded < pick(1, 20) ||
          replies.rejected < 20 ||
          replies.rejected + replies.decoded < 60;
        while ((performance.now() < endMs || isVoid()) && (await isRunning(service.pid))) {
          for (const way of ways) {
            corrections.push(await correct(way, [tab("T")], withinMs[size]));
            progress(`${corrections.length} corrective deployments`);
          }
          await delay(100);
        }
      },
    );
    const { afterMiB, beforeMiB, peakMiB, replies } = attacked;
    return {
      loads: [
        { name: "bodies answered", count: replies.rejected + replies.decoded, minimum: 60 },
        { name: "of them with 503, beyond the budget", count: replies.rejected, minimum: 20 },
        { name: "of them after they were decompressed", count: replies.decoded, minimum: pick(1, 20) },
        { name: "corrective deployments", count: corrections.length, minimum: pick(2, 10) },
      ],
      figures: [
        { name: "memory before", value: beforeMiB, unit: "MiB" },
        { name: "highest memory", value: peakMiB, unit: "MiB" },
        { name: "memory after its release", value: afterMiB, unit: "MiB" },
        {
          name: "longest time of a corrective deployment",
          value: Math.max(...corrections.map(({ ms }) => ms)),
          unit: "ms",
        },
      ],
      violations: [...attacked.violations, ...corrections.flatMap(({ problem }) => problem ?? [])],
      controls: [await withLargeBudget(context)],
    };
  },
};

/** Small sizes also run on machines that are busy with other work. */
const withinMs = { quick: 60_000, full: 2_000 } satisfies Record<Size, number>;
const atOnce = 60;
/** Half of the heap. */
const budgetMiB = 256;
/** What memory may keep of what it had under attack: the allocator has free memory between what is used. */
const toleratedMiB = 128;

/** JSON of many small values, which becomes much larger in memory, and is not a valid deployment. */
const body = gzipSync(`{"flows":[${"{},".repeat(5_000_000)}{}]}`);
const path = "/flowgate.v1.FlowsService/SetFlows";

type Attacked = {
  readonly beforeMiB: number;
  readonly peakMiB: number;
  readonly afterMiB: number;
  readonly replies: Replies;
  readonly violations: readonly string[];
};

type Replies = { decoded: number; rejected: number; readonly problems: Set<string> };

type Attack = {
  readonly service: Service;
  readonly ways: readonly Way[];
  readonly beforeMiB: number;
  readonly replies: Replies;
};

/** Attacks a service with these limits until `work` has ended. */
async function attack(dataDir: string, limits: object, work: (attack: Attack) => Promise<void>): Promise<Attacked> {
  await using service = await startService({
    ownProcess: true,
    config: {
      adminAuth: { users: [user("admin", "*"), user("attacker", "*")] },
      runtime: { mode: "none" },
      log: { level: "error" },
      // Bodies that wait are rejected sooner than by default, within the time of the drill.
      limits: { memoryWaitMs: 5_000, ...limits },
    },
    dataDir,
    // Those of `npm start`, the image and the unit of systemd.
    env: { MALLOC_ARENA_MAX: "2", MALLOC_TRIM_THRESHOLD_: "131072", NODE_OPTIONS: "--max-old-space-size=512" },
  });
  const token = bearer(await login(service, { username: "admin" }));
  const attacker = bearer(await login(service, { username: "attacker" }));
  const ways = [overTcp(service, token), overSocket(service, token)].filter((way) => way !== undefined);
  const { rssMiB: beforeMiB } = await readResources(service.pid);
  const ending = new AbortController();
  const replies: Replies = { decoded: 0, rejected: 0, problems: new Set() };
  const sending = sendBodies(service, attacker, replies, ending.signal);
  await work({ service, ways, beforeMiB, replies });
  ending.abort();
  await sending;
  const isAlive = await isRunning(service.pid);
  const { peakMiB, rssMiB } = isAlive ? await readResources(service.pid) : { peakMiB: 0, rssMiB: 0 };
  const excess = findExcess(beforeMiB, peakMiB);
  const afterMiB = isAlive && excess.length === 0 ? await untilReleased(service, beforeMiB) : rssMiB;
  return {
    beforeMiB,
    peakMiB,
    afterMiB,
    replies,
    violations: [
      ...(isAlive ? [] : ["the service has ended"]),
      ...(ways.length === 2 ? [] : ["the service has no Unix socket"]),
      ...excess,
      ...(afterMiB > beforeMiB + toleratedMiB
        ? [`memory is ${afterMiB.toFixed(0)} MiB after the attack, ${beforeMiB.toFixed(0)} before`]
        : []),
      ...replies.problems,
    ],
  };
}

function findExcess(beforeMiB: number, peakMiB: number): string[] {
  return peakMiB > beforeMiB + budgetMiB
    ? [`memory was ${peakMiB.toFixed(0)} MiB, ${beforeMiB.toFixed(0)} before, with a budget of ${budgetMiB}`]
    : [];
}

async function sendBodies(
  service: Service,
  token: { authorization: string },
  replies: Replies,
  until: AbortSignal,
): Promise<void> {
  const headers = { ...json, ...token, "content-encoding": "gzip" };
  const loop = async (): Promise<void> => {
    while (!until.aborted) {
      try {
        note(replies, await service.send("POST", path, { headers, body, signal: until }));
      } catch (error) {
        if (!until.aborted) {
          replies.problems.add(`a body was not answered: ${String(error)}`);
          // Avoids a busy loop after the service has ended.
          await delay(50);
        }
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, loop));
}

function note(replies: Replies, { status, headers, body: text }: Reply): void {
  if (status === 503) {
    replies.rejected++;
    if (!/^[1-9]\d*$/.test(headers["retry-after"] ?? "")) {
      replies.problems.add(`503 without a time to retry after: ${text}`);
    }
  } else if (status === 429) {
    // What its JSON becomes in memory is larger than the budget.
    replies.decoded++;
  } else {
    replies.problems.add(`a body was answered ${status}: ${text}`);
  }
}

/** The memory once it is released, at the latest after a minute: V8 collects the heap of an idle process 8 s after the last time, or later. */
async function untilReleased({ pid }: Service, beforeMiB: number): Promise<number> {
  const endMs = performance.now() + 60_000;
  for (;;) {
    const { rssMiB } = await readResources(pid);
    if (rssMiB <= beforeMiB + toleratedMiB || performance.now() > endMs) {
      return rssMiB;
    }
    await delay(100);
  }
}

async function withLargeBudget({ createFolder }: Context): Promise<Control> {
  let found: readonly string[] = [];
  await attack(await createFolder(), { memoryMb: 16_384 }, async ({ beforeMiB, service }) => {
    const endMs = performance.now() + 30_000;
    while (found.length === 0 && (await isRunning(service.pid)) && performance.now() < endMs) {
      await delay(20);
      found = findExcess(beforeMiB, (await readResources(service.pid)).peakMiB);
    }
    // Its memory would grow further.
    await service.kill9();
  });
  return { planted: "the budget is 16 GiB", found };
}
