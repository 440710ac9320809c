import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Health } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { deploy } from "../../test/e2e/deploy.ts";
import { endpoint } from "../../test/e2e/flow-builders.ts";
import { bearer } from "../../test/e2e/rest.ts";
import { eventually, type Service, startService } from "../../test/e2e/service.ts";
import { login, user } from "../../test/e2e/users.ts";
import type { Context, Size } from "../context.ts";
import type { Drill } from "../drill.ts";
import { flood, floods } from "../floods.ts";
import { overTcp } from "../operator.ts";
import { preload } from "../preload.ts";
import { growth, readResources, type Sample, sampleResources, slopePerHour } from "../resources.ts";

export const soak: Drill = {
  name: "soak",
  title: "Everything at once, for a long time",
  promise: "Memory and descriptors of the service stay flat under continuous use and abuse.",
  method:
    "Deployments, reads, logins, health watches and hostile clients run side by side for 15 minutes (`--minutes N`) with a heap of 160 MiB. A line is fitted to samples of memory and descriptors. After the load, the descriptors have to be those from before.",
  limits: "A short run only finds fast leaks: growth of 32 MiB is tolerated.",
  async run(context) {
    const { minutes, pick, size } = context;
    const durationMs = minutes === undefined ? pick(smallMs, 900_000) : minutes * 60_000;
    const [soaked, leaking] = await Promise.all([
      runSoak(context, { durationMs, everyMs: pick(250, 2_000) }),
      runSoak(
        { ...context, progress: () => {} },
        {
          durationMs: smallMs,
          everyMs: 250,
          nodeOptions: [preload("leaks").NODE_OPTIONS],
          // A process that gets no CPU leaks nothing.
          isEnough: (samples) => findGrowth(samples, "quick").length === 2,
        },
      ),
    ]);
    const { after, before, counts, samples } = soaked;
    const found = findLeaks(leaking, "quick");
    return {
      loads: Object.entries(counts).map(([name, count]) => ({ name, count, minimum: minimumOf(durationMs) })),
      figures: [
        { name: "duration", value: durationMs / 1000, unit: "s" },
        { name: "memory at the end", value: samples.at(-1)?.rssMiB ?? 0, unit: "MiB" },
        { name: "slope of memory", value: slopePerHour(samples, "rssMiB"), unit: "MiB/h" },
        { name: "slope of descriptors", value: slopePerHour(samples, "descriptors"), unit: "1/h" },
        {
          name: "descriptors after the load, more than before",
          value: after.descriptors - before.descriptors,
          unit: "",
        },
      ],
      violations: findLeaks(soaked, size),
      controls: [
        { planted: "memory leaks", found: found.filter((leak) => leak.startsWith("memory has grown")) },
        { planted: "descriptors leak", found: found.filter((leak) => leak.startsWith("descriptors have grown")) },
        {
          planted: "descriptors are not closed after the load",
          found: found.filter((leak) => leak.includes("are open after the load")),
        },
      ],
    };
  },
};

const smallMs = 12_000;

/** Of each kind of call. */
function minimumOf(durationMs: number): number {
  return Math.round(durationMs / 4_000);
}

type Soaked = {
  readonly counts: Record<string, number>;
  readonly samples: readonly Sample[];
  readonly before: Pick<Sample, "descriptors">;
  readonly after: Pick<Sample, "descriptors">;
};

type Soaking = {
  readonly durationMs: number;
  readonly everyMs: number;
  readonly nodeOptions?: readonly string[];
  /** Whether the samples show what is looked for; others are taken again, `maxSamplings` times at most. */
  readonly isEnough?: (samples: readonly Sample[]) => boolean;
};

const maxSamplings = 6;

/**
 * The allocator as of `npm start`, the image and the unit of systemd. With V8's default limit, of gigabytes, the heap grows for
 * longer than a soak.
 */
const limitedHeap = {
  MALLOC_ARENA_MAX: "2",
  MALLOC_TRIM_THRESHOLD_: "131072",
  NODE_OPTIONS: "--max-old-space-size=160",
};

async function runSoak(
  { createFolder, progress }: Context,
  { durationMs, everyMs, nodeOptions = [], isEnough = () => true }: Soaking,
): Promise<Soaked> {
  await using service = await startService({
    config,
    dataDir: await createFolder(),
    env: { ...limitedHeap, NODE_OPTIONS: [limitedHeap.NODE_OPTIONS, ...nodeOptions].join(" ") },
  });
  // On a busy machine, calls are refused for a moment.
  const token = bearer(await eventually(() => login(service, { username: "admin" })));
  await eventually(() => deploy(service, { flows: endpoint("/n", `msg.payload = "0"`) }, "full", token));
  const before = await readResources(service.pid);
  const ending = new AbortController();
  const { counts, ended } = startLoad(service, token, ending.signal);
  await delay(durationMs * 0.4);
  // Busy machines take longer until the load has warmed up the service.
  await waitUntil(() => Object.values(counts).every((count) => count >= minimumOf(durationMs)), 60_000);
  progress(`sampling for ${Math.round((durationMs * 0.6) / 1000)} s`);
  const sample = (): Promise<Sample[]> => sampleResources(service.pid, everyMs, AbortSignal.timeout(durationMs * 0.6));
  let samples = await sample();
  for (let count = 1; count < maxSamplings && !isEnough(samples); count++) {
    samples = await sample();
  }
  ending.abort();
  await ended;
  // They close what they have opened somewhat later. What is open after all that time is a leak.
  const readDescriptors = async (): Promise<number> => (await readResources(service.pid)).descriptors;
  await waitUntil(async () => (await readDescriptors()) <= before.descriptors + mayStayOpen, 15_000);
  return { counts, samples, before, after: { descriptors: await readDescriptors() } };
}

/** Gives up without an error: what was not reached is found by the checks. */
async function waitUntil(isReached: () => boolean | Promise<boolean>, withinMs: number): Promise<void> {
  await eventually(async () => assert(await isReached()), withinMs).catch(() => {});
}

const config = {
  adminAuth: { users: [user("admin", "*")] },
  log: { level: "error" },
  // The database would grow, and SQLite's cache of it.
  history: { maxRevisions: 50 },
  limits: { firstByteTimeoutMs: 1_000, headersTimeoutMs: 1_000, stallTimeoutMs: 1_000, requestTimeoutMs: 2_000 },
};

/** What the heap may grow until it is collected; in a short run it still warms up. */
const toleratedMiB: Readonly<Record<Size, number>> = { quick: 96, full: 32 };
const toleratedDescriptors = 40;
/** Descriptors that a process keeps after a load, such as those of files that it has loaded. */
const mayStayOpen = 5;

function findGrowth(samples: readonly Sample[], size: Size): string[] {
  const memory = growth(samples, "rssMiB");
  const descriptors = growth(samples, "descriptors");
  return [
    ...(memory > toleratedMiB[size] ? [`memory has grown by ${memory.toFixed(0)} MiB`] : []),
    ...(descriptors > toleratedDescriptors ? [`descriptors have grown by ${descriptors.toFixed(0)}`] : []),
  ];
}

function findLeaks({ after, before, samples }: Soaked, size: Size): string[] {
  return [
    ...findGrowth(samples, size),
    ...(after.descriptors > before.descriptors + mayStayOpen
      ? [`${after.descriptors} descriptors are open after the load, ${before.descriptors} before`]
      : []),
  ];
}

type Token = { readonly authorization: string };

type Load = { readonly counts: Record<string, number>; readonly ended: Promise<unknown> };

/** Repeats all kinds of calls until the signal, and counts those that succeed. */
function startLoad(service: Service, token: Token, until: AbortSignal): Load {
  const way = overTcp(service, token);
  const transport = createGrpcTransport({ baseUrl: service.url });
  const flows = createClient(FlowsService, transport);
  const health = createClient(Health, transport);
  let number = 0;
  const kinds: Record<string, { readonly everyMs: number; readonly once: () => Promise<unknown> }> = {
    "deployments over REST": {
      everyMs: 100,
      once: () => deploy(way, { flows: endpoint("/n", `msg.payload = "${number++}"`) }, "nodes"),
    },
    "deployments over gRPC": {
      everyMs: 150,
      once: () => flows.setFlows({ flows: [{ id: `tab ${number++}`, type: "tab" }] }, { headers: token }),
    },
    reads: { everyMs: 5, once: () => way.send("GET", "/flows") },
    logins: { everyMs: 200, once: () => login(service, { username: "admin" }) },
    "health watches": {
      everyMs: 100,
      once: async () => {
        // Connect's client does not end a stream whose iteration ends early.
        const ending = new AbortController();
        await health.watch({}, { signal: ending.signal })[Symbol.asyncIterator]().next();
        ending.abort();
      },
    },
    "hostile clients": { everyMs: 10, once: () => attackOnce(service, number++) },
  };
  const counts: Record<string, number> = Object.fromEntries(Object.keys(kinds).map((name) => [name, 0]));
  const loops = Object.entries(kinds).map(async ([name, { everyMs, once }]) => {
    while (!until.aborted) {
      const isOk = await once().then(
        () => true,
        () => false,
      );
      counts[name] = (counts[name] ?? 0) + (isOk ? 1 : 0);
      await delay(everyMs);
    }
  });
  return { counts, ended: Promise.all(loops) };
}

async function attackOnce({ port }: Service, at: number): Promise<void> {
  const all = Object.values(floods);
  const chosen = all[at % all.length];
  if (chosen !== undefined) {
    await flood(chosen, port, 300);
  }
}
