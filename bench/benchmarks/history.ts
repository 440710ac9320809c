import { randomBytes } from "node:crypto";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { formatDocument } from "@flowgate/flows";
import { diffFlows } from "@flowgate/flows/compare";
import type { FlowStore, RevisionDraft } from "../../src/store/flow-store.ts";
import { openSqliteStore } from "../../src/store/sqlite/open-store.ts";
import type { Benchmark, Effort, Result } from "../benchmark.ts";
import { type FlowNode, functionFlows } from "../flows.ts";
import { openFolder } from "../server.ts";
import { formatSpread } from "../statistics.ts";

/** 200 KB of JSON. */
const nodes = 1_000;
const yearlyDeployments = 20 * 365;

export const history: Benchmark = {
  name: "history",
  title: "The store alone: a history of 10,000 revisions (--quick: 1,000) of 200 KB, each with one changed node",
  async run({ starts, rounds }: Effort): Promise<Result> {
    const revisions = starts > 1 ? 10_000 : 1_000;
    await using folder = await openFolder();
    const path = join(folder.path, "flowgate.db");
    const key = randomBytes(32);
    const commits = await fill(path, key, revisions);
    const filledBytes = (await stat(path)).size;

    const times = new Map<string, number[]>();
    const time = async (name: string, work: () => Promise<unknown>): Promise<void> => {
      const startMs = performance.now();
      await work();
      times.set(name, [...(times.get(name) ?? []), performance.now() - startMs]);
    };
    for (let round = 0; round < rounds; round++) {
      await time("open the store", async () => (await openSqliteStore({ path, key }))[Symbol.asyncDispose]());
    }
    await using store = await openSqliteStore({ path, key });
    const { flows } = store;
    for (let round = 0; round < rounds; round++) {
      await time("list the newest 50", () => flows.list({ limit: 50 }));
      await time("list 50 in the middle", () => flows.list({ limit: 50, before: revisions / 2 }));
      await time("list the failed ones (none)", () => flows.list({ limit: 50, filter: { outcome: "failed" } }));
      await time("read and compare the newest and the oldest", () => compareEnds(flows));
    }
    await time("remove half of them", () => flows.prune({ maxCount: revisions / 2, maxAgeMs: undefined }));
    await store[Symbol.asyncDispose]();
    const prunedBytes = (await stat(path)).size;

    const bytesEach = filledBytes / revisions;
    return {
      figures: [
        { title: `commit, into a history of up to ${revisions} revisions`, unit: "ms", values: commits },
        ...Array.from(times, ([title, values]) => ({ title, unit: "ms" as const, values })),
        { title: "size of a revision of 200 KB in the file", unit: "KiB", values: [bytesEach / 1024] },
        { title: "a year of 20 deployments a day", unit: "MiB", values: [(bytesEach * yearlyDeployments) / 2 ** 20] },
        {
          title: "size of the file after removing half of the revisions, of the size before",
          unit: "x",
          values: [prunedBytes / filledBytes],
          goal: { kind: "atMost", value: 0.55 },
        },
      ],
      rows: [["commit", commits] as const, ...times].map(([name, values]) => ({ "": name, ms: formatSpread(values) })),
      chart: [],
    };
  },
};

/** Commits the revisions, and returns the time of each commit in ms. */
async function fill(path: string, key: Buffer, revisions: number): Promise<number[]> {
  await using store = await openSqliteStore({ path, key });
  const configuration = functionFlows(nodes);
  const times: number[] = [];
  for (let count = 1; count < revisions; count++) {
    const index = count % nodes;
    configuration[index] = { ...(configuration[index] as FlowNode), info: `changed in ${count}` };
    const draft = await draftOf(configuration, store.flows.active().rev);
    const startMs = performance.now();
    await store.flows.commit(draft);
    times.push(performance.now() - startMs);
  }
  return times;
}

async function draftOf(configuration: readonly FlowNode[], parent: string): Promise<RevisionDraft> {
  return {
    parent,
    by: "bench",
    address: "127.0.0.1",
    protocol: "rest",
    requestId: undefined,
    deploymentType: "nodes",
    cause: "deployment",
    restoredRev: undefined,
    flows: formatDocument(configuration as Parameters<typeof formatDocument>[0]),
    credentials: new Map(),
    kept: new Map(),
    message: undefined,
    probationMs: undefined,
    idempotencyKey: undefined,
  };
}

async function compareEnds(store: FlowStore): Promise<void> {
  const { revisions } = await store.list({ limit: 1, before: 3 });
  const oldest = await store.find(revisions[0]?.rev ?? "");
  const newest = store.active();
  if (oldest !== undefined) {
    diffFlows(
      { flows: oldest.flows.nodes, credentials: oldest.credentials },
      { flows: newest.flows.nodes, credentials: newest.credentials },
    );
  }
}
