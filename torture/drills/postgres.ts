import { chmod } from "node:fs/promises";
import { tmpdir } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { deploy } from "../../test/e2e/deploy.ts";
import { v2 } from "../../test/e2e/rest.ts";
import { eventually, type Service, startService } from "../../test/e2e/service.ts";
import { runClients } from "../../test/linearizability/clients.ts";
import { findViolations } from "../../test/linearizability/find-violations.ts";
import type { ChainedRevision, Operation } from "../../test/linearizability/operation.ts";
import type { Database } from "../../test/postgres/database.ts";
import { openInstallation } from "../../test/postgres/installation.ts";
import { openServer, type Server } from "../../test/postgres/server.ts";
import type { Context } from "../context.ts";
import type { Drill } from "../drill.ts";
import { findStoredFailures } from "../find-stored-failures.ts";
import { preload } from "../preload.ts";
import { ipcrm } from "../programs.ts";

export const postgres: Drill = {
  name: "postgres",
  title: "PostgreSQL is killed under the deployments of two replicas",
  promise:
    "When the PostgreSQL server of several replicas is killed, no acknowledged deployment is lost, a deployment that was answered as failed is not stored unless the answer says that its outcome is unknown, deployments stay linearizable, and the replicas recover by themselves.",
  method:
    "Clients deploy and read at two replicas while the server, configured with `synchronous_commit = off`, is killed or stopped in immediate mode and started again. Both replicas have to become ready without a restart. Operations are checked as in [linearizability](#linearizability), audit logs are verified.",
  limits:
    "One server. Promotion of a standby is tested by [test/e2e/postgres-failures.test.ts](../test/e2e/postgres-failures.test.ts).",
  programs: [ipcrm],
  async run(context) {
    const { pick } = context;
    // The server runs as another user if this is root.
    await chmod(tmpdir(), 0o711);
    await using installation = await openInstallation();
    await using server = await openServer(installation, { settings });
    const { operations, chain, kills, recoveryMs, violations } = await deployWhileKilling(context, server, pick(3, 24));
    const planted = await deployWhileKilling(context, server, 1, preload("asynchronous-commits"));
    const count = (kind: Operation["outcome"]["kind"]) =>
      operations.filter(({ outcome }) => outcome.kind === kind).length;
    return {
      loads: [
        { name: "acknowledged deployments", count: count("committed"), minimum: pick(60, 2_000) },
        { name: "kills of the server", count: kills, minimum: pick(3, 24) },
        { name: "operations that failed meanwhile", count: count("unknown"), minimum: pick(2, 12) },
      ],
      figures: [
        { name: "deployments that lost against another one", value: count("mismatch"), unit: "" },
        { name: "reads", value: count("read"), unit: "" },
        { name: "longest time from a kill until both replicas were ready", value: recoveryMs, unit: "ms" },
      ],
      violations: [...violations, ...findViolations(operations, chain), ...findStoredFailures(operations, chain)],
      controls: [
        {
          planted: "commits are acknowledged before they are on the disk of the server",
          found: findViolations(planted.operations, planted.chain).filter((text) => text.endsWith("does not exist")),
        },
      ],
    };
  },
};

/** Commits that do not ask for more are in memory only, for longer than the server runs. */
const settings = { synchronous_commit: "off", wal_writer_delay: "10s", wal_writer_flush_after: "1GB" };

type Run = {
  readonly operations: readonly Operation[];
  readonly chain: readonly ChainedRevision[];
  readonly kills: number;
  readonly recoveryMs: number;
  readonly violations: readonly string[];
};

async function deployWhileKilling(
  context: Context,
  server: Server,
  times: number,
  env: Readonly<Record<string, string>> = {},
): Promise<Run> {
  const { pick, progress, random } = context;
  const database = await server.createDatabase();
  await using services = new AsyncDisposableStack();
  const start = async (): Promise<Service> =>
    services.use(await startService({ config: configOf(database.url), dataDir: await context.createFolder(), env }));
  const [first, second] = await Promise.all([start(), start()]);
  const replicas = [first, second];
  const base = await deploy(first, { flows: [] });
  // Writes to the disk what was committed so far: without the first revision, the replicas of the control could not recover.
  await database.query("SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'flowgate', 'flush')");
  const ending = new AbortController();
  const counts = { committed: 0, unknown: 0 };
  const clients = runClients({
    // One of each protocol, or two.
    clients: pick(3, 6),
    comparisons: Number.MAX_SAFE_INTEGER,
    compares: true,
    urls: replicas.map(({ url }) => url),
    base,
    until: ending.signal,
    onOperation({ outcome: { kind } }) {
      if (kind === "committed" || kind === "unknown") {
        counts[kind] += 1;
      }
    },
  });
  const untilMore = async (kind: keyof typeof counts, more: number): Promise<void> => {
    const wanted = counts[kind] + more;
    await eventually(async () => {
      if (counts[kind] < wanted) {
        throw new Error(`${more} operations with the outcome ${kind} were not made within a minute`);
      }
    });
  };
  let recoveryMs = 0;
  for (let kills = 0; kills < times; kills++) {
    await untilMore("committed", pick(25, 100));
    await delay(pick(100, 500) * random());
    const beganMs = performance.now();
    if (kills % 2 === 0) {
      await server.kill();
      // In the other cases, the server is back before the replicas give up.
      await untilMore("unknown", 1);
    } else {
      await server.stop("immediate");
    }
    await server.start();
    await Promise.all(replicas.map(untilReady));
    recoveryMs = Math.max(recoveryMs, performance.now() - beganMs);
    progress(`${kills + 1} kills`);
  }
  await untilMore("committed", 10);
  ending.abort();
  const operations = await clients;
  const chain = await readChain(database, base);
  const problems = await Promise.all(replicas.map((replica) => findProblems(replica, chain.at(-1)?.rev)));
  return { operations, chain, kills: times, recoveryMs, violations: problems.flat() };
}

function configOf(store: string) {
  return {
    store,
    credentialSecret: "a secret that both replicas share",
    runtime: { mode: "none" },
    // All revisions are compared afterwards.
    history: { maxRevisions: 10_000_000 },
    limits: { eventLoopDelayMs: 0 },
  };
}

async function untilReady(replica: Service): Promise<void> {
  await eventually(async () => {
    const { status, body } = await replica.send("GET", "/readyz");
    if (status !== 200) {
      throw new Error(`a replica is not ready after a restart of the server: ${body}`);
    }
  });
}

function readChain(database: Database, base: string): Promise<ChainedRevision[]> {
  return database.query(
    `SELECT rev, parent, message AS operation FROM flowgate.revision
     WHERE seq >= (SELECT seq FROM flowgate.revision WHERE rev = $1) ORDER BY seq`,
    [base],
  );
}

/** A replica has to follow to the newest revision, and its audit log to be intact. */
async function findProblems(replica: Service, newest: string | undefined): Promise<string[]> {
  const follows = eventually(async () => {
    const { rev } = (await replica.send("GET", "/flows", { headers: v2 })).json() as { rev: string };
    if (rev !== newest) {
      throw new Error(`the active revision of a replica is ${rev}, and the newest one ${newest}`);
    }
  }, 30_000);
  const problems = await follows.then(
    () => [],
    (error: Error) => [error.message],
  );
  const { body } = await replica.send("GET", "/audit:verify");
  return [...problems, ...(/"intact": ?true/.test(body) ? [] : [`the audit log is not intact: ${body}`])];
}
