import { setTimeout as delay } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { tab } from "../../test/e2e/flow-builders.ts";
import { bearer, json } from "../../test/e2e/rest.ts";
import { isRunning, type Service, startService } from "../../test/e2e/service.ts";
import { login, user } from "../../test/e2e/users.ts";
import type { Context, Size } from "../context.ts";
import type { Control, Drill } from "../drill.ts";
import { correct, type Correction, overSocket, overTcp } from "../operator.ts";
import { readResources, type Sample, sampleResources } from "../resources.ts";

export const memory: Drill = {
  name: "memory",
  title: "Compressed bodies that use up the memory",
  promise:
    "Requests cannot exhaust the memory of the API process: beyond a budget they are rejected with 503 before they are decompressed, operators can deploy, and " +
    "the memory is released afterwards.",
  method:
    "60 clients with the permission to deploy send gzip bodies of 16 KB that hold 16 MB of JSON, again and again, to a service whose heap is limited to " +
    "512 MiB. Meanwhile operators deploy corrections over TCP and over the Unix socket, each within two seconds. The control is a service that is " +
    "killed during the attack.",
  async run(context) {
    const attacked = await attack(context, context.pick(5_000, 60_000));
    const { corrections, samples, afterMiB } = attacked;
    return {
      loads: [
        { name: "bodies", count: attacked.bodies, minimum: 60 },
        { name: "corrective deployments", count: corrections.length, minimum: context.pick(2, 10) },
      ],
      figures: [
        { name: "highest memory", value: Math.max(...samples.map(({ rssMiB }) => rssMiB)), unit: "MiB" },
        { name: "memory before", value: attacked.beforeMiB, unit: "MiB" },
        { name: "memory 10 s after", value: afterMiB, unit: "MiB" },
        {
          name: "longest time of a corrective deployment",
          value: Math.max(...corrections.map(({ ms }) => ms)),
          unit: "ms",
        },
      ],
      violations: attacked.violations,
      controls: [await ended(context)],
    };
  },
};

/** Small sizes also run on machines that are busy with other work. */
const withinMs = { quick: 10_000, full: 2_000 } satisfies Record<Size, number>;
const atOnce = 60;
/** What memory may keep of what it had under attack: the allocator has free memory between what is used. */
const toleratedMiB = 128;

/** JSON of many small values, which becomes much larger in memory, and is not a valid deployment. */
const body = gzipSync(`{"flows":[${"{},".repeat(5_000_000)}{}]}`);
const path = "/flowgate.v1.FlowsService/SetFlows";

async function attack(
  { createFolder, pick, progress, size }: Context,
  durationMs: number,
  disturb: (service: Service) => void = () => {},
) {
  await using service = await startService({
    config: {
      adminAuth: { users: [user("admin", "*"), user("attacker", "*")] },
      runtime: { mode: "none" },
      log: { level: "error" },
    },
    dataDir: await createFolder(),
    // Those of `npm start`, the image and the unit of systemd.
    env: { MALLOC_ARENA_MAX: "2", MALLOC_TRIM_THRESHOLD_: "131072", NODE_OPTIONS: "--max-old-space-size=512" },
  });
  const token = bearer(await login(service, { username: "admin" }));
  const attacker = bearer(await login(service, { username: "attacker" }));
  const { rssMiB: beforeMiB } = await readResources(service.pid);
  const ending = new AbortController();
  const sampling = sampleResources(service.pid, 50, ending.signal).catch((): Sample[] => []);
  const sending = sendBodies(service, attacker, ending.signal);
  disturb(service);
  const ways = [overTcp(service, token), overSocket(service, token)].filter((way) => way !== undefined);
  const corrections: Correction[] = [];
  const endMs = performance.now() + durationMs;
  while (performance.now() < endMs || corrections.length < pick(2, 10) * ways.length) {
    for (const way of ways) {
      corrections.push(await correct(way, [tab("T")], withinMs[size]));
      progress(`${corrections.length} corrective deployments`);
    }
    await delay(100);
  }
  ending.abort();
  const [samples, bodies] = await Promise.all([sampling, sending]);
  const isAlive = await isRunning(service.pid);
  const afterMiB = isAlive ? await untilReleased(service, beforeMiB) : 0;
  return {
    bodies,
    beforeMiB,
    afterMiB,
    corrections,
    samples,
    violations: [
      ...(isAlive ? [] : ["the service has ended"]),
      ...(ways.length === 2 ? [] : ["the service has no Unix socket"]),
      ...(afterMiB > beforeMiB + toleratedMiB
        ? [`memory is ${afterMiB.toFixed(0)} MiB after the attack, ${beforeMiB.toFixed(0)} before`]
        : []),
      ...corrections.flatMap(({ problem }) => problem ?? []),
    ],
  };
}

async function sendBodies(service: Service, token: { authorization: string }, until: AbortSignal): Promise<number> {
  let count = 0;
  const headers = { ...json, ...token, "content-encoding": "gzip" };
  const loop = async (): Promise<void> => {
    while (!until.aborted) {
      await service.send("POST", path, { headers, body, signal: until }).then(
        () => {},
        // Avoids a busy loop after the service has ended.
        () => delay(50),
      );
      count++;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, loop));
  return count;
}

/** The memory once it is released, at the latest after ten seconds. */
async function untilReleased({ pid }: Service, beforeMiB: number): Promise<number> {
  const endMs = performance.now() + 10_000;
  for (;;) {
    const { rssMiB } = await readResources(pid);
    if (rssMiB <= beforeMiB + toleratedMiB || performance.now() > endMs) {
      return rssMiB;
    }
    await delay(100);
  }
}

async function ended(context: Context): Promise<Control> {
  const { violations } = await attack(context, 500, ({ pid }) => process.kill(pid, "SIGKILL"));
  return {
    planted: "the service ends",
    found: violations.filter((violation) => violation === "the service has ended"),
  };
}
