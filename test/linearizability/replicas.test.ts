// Checks concurrent deployments on several replicas for linearizability. FLOWGATE_LINEARIZABILITY_CLIENTS and
// FLOWGATE_LINEARIZABILITY_DEPLOYMENTS run more clients, and more compare-and-swap deployments.
import { afterAll, beforeAll, expect, test } from "vitest";
import { deploy } from "../e2e/deploy.ts";
import { type Service, startService } from "../e2e/service.ts";
import type { Database } from "../postgres/database.ts";
import { createDatabase } from "../postgres/postgres.ts";
import { runClients } from "./clients.ts";
import { findViolations } from "./find-violations.ts";
import type { ChainedRevision, Operation } from "./operation.ts";

// One for each protocol.
const clients = Number(process.env["FLOWGATE_LINEARIZABILITY_CLIENTS"] ?? 3);
const comparisons = Number(process.env["FLOWGATE_LINEARIZABILITY_DEPLOYMENTS"] ?? 100);
const timeout = 240_000 + comparisons * 100;

const stack = new AsyncDisposableStack();
let database: Database;
let replicas: readonly Service[];
beforeAll(async () => {
  database = stack.use(await createDatabase());
  const config = {
    store: database.url,
    credentialSecret: "a secret that all replicas share",
    // All revisions are compared afterwards, and no call may fail.
    history: { maxRevisions: 10_000_000 },
    limits: { eventLoopDelayMs: 0 },
    runtime: { mode: "none" },
  };
  replicas = await Promise.all([1, 2, 3].map(async () => stack.use(await startService({ config }))));
});
afterAll(() => stack.disposeAsync());

type Observed = { readonly operations: readonly Operation[]; readonly chain: readonly ChainedRevision[] };

async function observe(options: { readonly compares: boolean; readonly comparisons: number }): Promise<Observed> {
  const [first] = replicas as [Service];
  const base = await deploy(first, { flows: [] });
  const urls = replicas.map(({ url }) => url);
  const operations = await runClients({ ...options, clients, urls, base });
  const chain = await database.query<ChainedRevision>(
    `SELECT rev, parent, message AS operation FROM flowgate.revision
     WHERE seq >= (SELECT seq FROM flowgate.revision WHERE rev = $1) ORDER BY seq`,
    [base],
  );
  return { operations, chain };
}

function countOutcomes(operations: readonly Operation[]): Record<string, number> {
  return Object.fromEntries(
    Map.groupBy(operations, ({ outcome }) => outcome.kind)
      .entries()
      .map(([kind, list]) => [kind, list.length]),
  );
}

function durationMs(operations: readonly Operation[]): number {
  return Math.max(...operations.map(({ endMs }) => endMs)) - Math.min(...operations.map(({ beginMs }) => beginMs));
}

test(
  `the deployments of ${clients} processes at three replicas are linearizable`,
  { timeout },
  async ({ annotate }) => {
    const { operations, chain } = await observe({ compares: true, comparisons });
    const counts = countOutcomes(operations);
    await annotate(JSON.stringify({ ...counts, ms: Math.round(durationMs(operations)) }));
    expect(findViolations(operations, chain)).toEqual([]);
    expect(operations.filter(({ outcome }) => outcome.kind === "unknown")).toEqual([]);
    expect(counts).toEqual({
      committed: chain.length - 1,
      mismatch: expect.toSatisfy((count) => count > 0),
      read: expect.toSatisfy((count) => count > 0),
    });
  },
);

test("deployments without the comparison are found", { timeout }, async () => {
  const { operations, chain } = await observe({ compares: false, comparisons: 10 * clients });
  expect(findViolations(operations, chain)).toContainEqual(
    expect.stringMatching(/^client \d+, \w+, operation \d+ has replaced revision \S+, but expected \S+$/),
  );
});
