import { DatabaseSync } from "node:sqlite";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { deploy } from "../../test/e2e/deploy.ts";
import { startService } from "../../test/e2e/service.ts";
import { runClients } from "../../test/linearizability/clients.ts";
import { findViolations } from "../../test/linearizability/find-violations.ts";
import type { ChainedRevision, Operation } from "../../test/linearizability/operation.ts";
import { openTcpProxy } from "../../test/tcp-proxy.ts";
import type { Context } from "../context.ts";
import type { Control, Drill } from "../drill.ts";

export const linearizability: Drill = {
  name: "linearizability",
  title: "Concurrent deployments while the service is killed",
  promise:
    "Deployments are linearizable over every protocol: each takes effect at one moment between its request and its response, and an acknowledged deployment survives SIGKILL of the service.",
  method:
    "Client processes deploy and read over REST, Connect and gRPC, with and without an expected revision, while the service is killed at random and started again. A checker looks for an order of all operations that agrees with the revisions in the database.",
  limits: "One service with SQLite. [postgres](#postgres) covers replicas.",
  async run(context) {
    const dataDir = await context.createFolder();
    const { base, kills, operations } = await deployWhileKilling(context, dataDir);
    const chain = readChain(dataDir, base);
    const count = (kind: Operation["outcome"]["kind"]) =>
      operations.filter(({ outcome }) => outcome.kind === kind).length;
    return {
      loads: [
        { name: "acknowledged deployments", count: count("committed"), minimum: context.pick(60, 5_000) },
        { name: "kills", count: kills, minimum: context.pick(2, 40) },
        { name: "operations with an unknown outcome", count: count("unknown"), minimum: context.pick(1, 40) },
      ],
      figures: [
        { name: "deployments that lost against another one", value: count("mismatch"), unit: "" },
        { name: "reads", value: count("read"), unit: "" },
      ],
      violations: findViolations(operations, chain),
      controls: [lostWrite(operations, chain), exchanged(operations, chain)],
    };
  },
};

const config = { runtime: { mode: "none" }, history: { maxRevisions: 10_000_000 }, limits: { eventLoopDelayMs: 0 } };

type Run = { readonly base: string; readonly kills: number; readonly operations: readonly Operation[] };

async function deployWhileKilling({ pick, random, progress }: Context, dataDir: string): Promise<Run> {
  await using services = new AsyncDisposableStack();
  const start = async () => services.use(await startService({ config, dataDir }));
  let service = await start();
  const base = await deploy(service, { flows: [] });
  await using proxy = await openTcpProxy(service.port);
  const ended = new AbortController();
  const counts = { known: 0 };
  const clients = runClients({
    // One of each protocol, or two.
    clients: pick(3, 6),
    comparisons: pick(240, 20_000),
    compares: true,
    urls: [`http://127.0.0.1:${proxy.port}`],
    base,
    onOperation: ({ outcome }) => void (counts.known += outcome.kind === "unknown" ? 0 : 1),
  }).finally(() => ended.abort());
  /** Resolves after this many further operations whose outcome is known, so that a slow machine makes progress between the kills. */
  const untilKnown = async (more: number): Promise<void> => {
    const wanted = counts.known + more;
    while (counts.known < wanted && !ended.signal.aborted) {
      await delay(10);
    }
  };
  const kill = async (): Promise<number> => {
    let kills = 0;
    // Each is a start of the service; on a busy machine the clients take longer for their operations.
    while (!ended.signal.aborted && kills < pick(4, Number.POSITIVE_INFINITY)) {
      await untilKnown(10);
      await Promise.race([delay(pick(150, 300) + pick(350, 1_200) * random()), clients]);
      if (!ended.signal.aborted) {
        await service.kill9();
        service = await start();
        proxy.sendTo(service.port);
        progress(`${++kills} kills`);
      }
    }
    return kills;
  };
  const [operations, kills] = await Promise.all([clients, kill()]);
  return { base, kills, operations };
}

function readChain(dataDir: string, base: string): ChainedRevision[] {
  using db = new DatabaseSync(join(dataDir, "flowgate.db"));
  return db
    .prepare(
      `SELECT rev, parent, message AS operation FROM revision
       WHERE seq >= (SELECT seq FROM revision WHERE rev = ?) ORDER BY seq`,
    )
    .all(base) as ChainedRevision[];
}

function lostWrite(operations: readonly Operation[], chain: readonly ChainedRevision[]): Control {
  const acknowledged = operations.findLast(({ outcome }) => outcome.kind === "committed")?.id;
  const at = chain.findIndex(({ operation }) => operation === acknowledged);
  const without = chain
    .toSpliced(at, 1)
    .map((revision, index, all) => (index === at ? { ...revision, parent: all[at - 1]?.rev ?? null } : revision));
  return { planted: "an acknowledged revision is lost", found: findViolations(operations, without) };
}

function exchanged(operations: readonly Operation[], chain: readonly ChainedRevision[]): Control {
  const at = Math.floor(chain.length / 2);
  const [one, other] = chain.slice(at, at + 2);
  const wrong = one && other ? chain.toSpliced(at, 2, other, one) : chain;
  return { planted: "two revisions are stored in the wrong order", found: findViolations(operations, wrong) };
}
