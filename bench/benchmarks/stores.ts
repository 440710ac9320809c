import { availableParallelism } from "node:os";
import { openInstallation } from "../../test/postgres/installation.ts";
import { openServer } from "../../test/postgres/server.ts";
import type { Benchmark, Effort, Figure, Result } from "../benchmark.ts";
import { deploy, deploymentBody, flowgateTarget, functionFlows } from "../flows.ts";
import { type Loader, openLoader } from "../load/loader.ts";
import type { Target } from "../load/target.ts";
import { openService, type Service } from "../service.ts";
import { formatSpread } from "../statistics.ts";

const replicaCounts = [1, 2, 3] as const;
const maxReplicas = 3;

/** Services with the same store. */
type Contender = { readonly name: string; readonly replicas: readonly Service[] };

type Load = {
  readonly name: string;
  /** Of `Effort.sliceMs`: deployments are few in a second. */
  readonly slices: number;
  /** Concurrent calls, which are distributed over the replicas. Divisible by their number. */
  readonly calls: number;
  /** Called before each measurement. */
  readonly prepare?: (contender: Contender) => Promise<void>;
  readonly target: (service: Service) => Promise<Omit<Target, "connections" | "callsPerConnection">>;
};

const small = deploymentBody(functionFlows(10));
const large = deploymentBody(functionFlows(1_000));

const loads: readonly Load[] = [
  deployments("deployments of 2 KB", small),
  deployments("deployments of 200 KB", large),
  reads("GET /flows, 2 KB", async ({ authorization }) => ({ headers: { authorization } })),
  reads("GET /flows, 304", async (service) => ({
    headers: { authorization: service.authorization, "if-none-match": await readEtag(service) },
    status: 304,
  })),
];

export const stores: Benchmark = {
  name: "stores",
  title: "Deployments and reads per second on SQLite, and on PostgreSQL with 1, 2 and 3 replicas",
  async run({ rounds, sliceMs, profileDir }: Effort): Promise<Result> {
    await using stack = new AsyncDisposableStack();
    const contenders = await openContenders(stack, profileDir);
    const loaders = Array.from({ length: maxReplicas }, () => stack.use(openLoader()));
    /** Rates per round, by load and contender. */
    const rates = new Map(
      loads.map(({ name }) => [name, new Map(contenders.map(({ name }) => [name, [] as number[]]))]),
    );
    // The first round is for compiling code.
    for (let round = 0; round <= rounds; round++) {
      for (const load of loads) {
        for (const contender of contenders) {
          const rate = await measure(load, contender, loaders, sliceMs);
          if (round > 0) {
            rates.get(load.name)?.get(contender.name)?.push(rate);
          }
        }
      }
    }
    return {
      figures: loads.flatMap(({ name }) => figuresOf(name, rates.get(name))),
      rows: contenders.map(({ name }) => ({
        "per second": name,
        ...Object.fromEntries(loads.map((load) => [load.name, formatSpread(rates.get(load.name)?.get(name) ?? [])])),
      })),
      chart: loads.map((load) => ({
        title: `${load.name}, per second`,
        bars: Array.from(rates.get(load.name) ?? [], ([label, values]) => ({ label, values })),
      })),
      notes: [
        ...loads.map(({ name, calls }) => `${name}: ${calls} concurrent calls, distributed over the replicas`),
        `Deployments are forced, and flows are not run. Replicas, PostgreSQL and the load share ${availableParallelism()} cores.`,
      ],
    };
  },
};

function deployments(name: string, body: string): Load {
  return {
    name,
    slices: 4,
    calls: 12,
    target: async (service) => ({
      protocol: "http1",
      method: "POST",
      path: "/flows",
      headers: { "content-type": "application/json", ...flowgateTarget(service).headers("nodes") },
      body: Buffer.from(body),
    }),
  };
}

function reads(name: string, parameters: (service: Service) => Promise<Pick<Target, "headers" | "status">>): Load {
  return {
    name,
    slices: 1,
    calls: 48,
    prepare: async ({ replicas }) => {
      const [first] = replicas;
      if (first !== undefined) {
        await deploy(flowgateTarget(first), small, "nodes");
      }
      await Promise.all(replicas.map(readEtag));
    },
    target: async (service) => ({ protocol: "http1", path: "/flows", ...(await parameters(service)) }),
  };
}

/** The condition makes the replica read the newest revision first. */
async function readEtag({ url, authorization }: Service): Promise<string> {
  const response = await fetch(`${url}/flows`, { headers: { authorization, "if-none-match": '"none"' } });
  await response.bytes();
  return response.headers.get("etag") ?? "";
}

async function openContenders(
  stack: AsyncDisposableStack,
  profileDir: string | undefined,
): Promise<readonly Contender[]> {
  const options = {
    runtime: { port: 0, mode: "none" },
    credentialSecret: "a secret that all replicas share",
    // The load is meant to be as high as possible.
    limits: { eventLoopDelayMs: 0 },
  } as const;
  const sqlite = stack.use(await openService({ profileDir }, options));
  const contenders: Contender[] = [{ name: "SQLite", replicas: [sqlite] }];
  const installation = stack.use(await openInstallation());
  const server = stack.use(await openServer(installation, { settings: { wal_keep_size: "0" } }));
  for (const count of replicaCounts) {
    const { url: store } = await server.createDatabase();
    const replicas: Service[] = [];
    for (let each = 0; each < count; each++) {
      replicas.push(stack.use(await openService({ profileDir }, { ...options, store })));
    }
    contenders.push({ name: `PostgreSQL, ${count} replica${count === 1 ? "" : "s"}`, replicas });
  }
  return contenders;
}

/** Loads all replicas at the same time, and returns the sum of their rates. */
async function measure(
  { slices, calls, prepare, target }: Load,
  contender: Contender,
  loaders: readonly Loader[],
  sliceMs: number,
): Promise<number> {
  const { replicas } = contender;
  await prepare?.(contender);
  const own = loaders.slice(0, replicas.length);
  const connections = calls / replicas.length;
  for (const [index, replica] of replicas.entries()) {
    await own[index]?.open(replica.url, { ...(await target(replica)), connections, callsPerConnection: 1 });
  }
  const runs = await Promise.all(own.map((loader) => loader.run(slices * sliceMs)));
  await Promise.all(own.map((loader) => loader.close()));
  return runs.reduce((sum, { calls, ms }) => sum + (calls / ms) * 1000, 0);
}

function figuresOf(name: string, rates: ReadonlyMap<string, readonly number[]> = new Map()): Figure[] {
  const ratio = (title: string, of: string, by: string): Figure => {
    const divisors = rates.get(by) ?? [];
    const values = (rates.get(of) ?? []).map((rate, round) => rate / (divisors[round] ?? Number.NaN));
    return { title, unit: "x", values };
  };
  return [
    ratio(`${name}: PostgreSQL with one replica, of SQLite`, "PostgreSQL, 1 replica", "SQLite"),
    ratio("… 3 replicas, of one", "PostgreSQL, 3 replicas", "PostgreSQL, 1 replica"),
  ];
}
