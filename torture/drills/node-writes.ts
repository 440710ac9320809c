import { chmod, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deploy } from "../../test/e2e/deploy.ts";
import { tab } from "../../test/e2e/flow-builders.ts";
import { installKeeper, keeper } from "../../test/e2e/keeper.ts";
import { eventually, type Service, startService } from "../../test/e2e/service.ts";
import { openInstallation } from "../../test/postgres/installation.ts";
import { openServer } from "../../test/postgres/server.ts";
import type { Context } from "../context.ts";
import { findDamage } from "../database.ts";
import type { Control, Drill } from "../drill.ts";
import { ipcrm, strace } from "../programs.ts";
import { attachStrace, countCalls } from "../strace.ts";
import { readToken, Token, untilRunning } from "../tokens.ts";

export const nodeWrites: Drill = {
  name: "node-writes",
  title: "Tokens that nodes renew, under SIGKILL",
  promise:
    "A token that a node has renewed is never replaced by an older one: once its write is acknowledged to the node, it stays active after SIGKILL of the service, on the replica that runs the flows next, and after deployments, undo and restore.",
  method:
    "With SQLite, strace kills the service at another system call of a token renewal each time. With PostgreSQL, the replica that runs the flows is killed at random, while the other one deploys, undoes and restores. Tokens must not be older than the last acknowledged ones.",
  programs: [strace, ipcrm],
  async run(context) {
    const { pick } = context;
    const calls = await killAtCalls(context);
    const replicas = await killReplicas(context);
    return {
      loads: [
        { name: "kills at a system call of a renewal", count: calls.kills, minimum: pick(3, 30) },
        { name: "kills of a replica", count: replicas.kills, minimum: pick(1, 15) },
        { name: "acknowledged renewals", count: calls.renewals + replicas.renewals, minimum: pick(20, 1_000) },
      ],
      figures: [
        { name: "renewals that were stored without having been acknowledged", value: calls.unacknowledged, unit: "" },
        { name: "deployments, undos and restores meanwhile", value: replicas.deployments, unit: "" },
      ],
      violations: [...calls.violations, ...replicas.violations],
      controls: [calls.control],
    };
  },
};

const flows = [tab("T"), keeper("k"), keeper("l"), keeper("m")];

const storage = ["pwrite64", "fsync", "fdatasync", "ftruncate"];

async function killAtCalls({ pick, random, createFolder, progress }: Context) {
  const dataDir = await createFolder();
  await installKeeper(dataDir);
  // Few revisions, since the whole database is checked each time.
  const config = { history: { maxRevisions: 4 } };
  await using services = new AsyncDisposableStack();
  const start = async () => services.use(await startService({ config, dataDir, ownProcess: true }));
  let service = await start();
  const token = new Token("k");
  await deploy(service, { flows, credentials: { k: { user: "ada" } } });
  await token.renew(service);
  const tries = await listCalls(service, token);
  // A renewal makes about 15 calls.
  const chosen = Array.from({ length: pick(1, 4) }, () => tries)
    .flat()
    .map((each) => ({ each, key: random() }))
    .toSorted((one, other) => one.key - other.key)
    .slice(0, pick(5, 200))
    .map(({ each }) => each);
  const violations: string[] = [];
  let kills = 0;
  let renewals = 0;
  let unacknowledged = 0;
  for (const [at, { call, nth }] of chosen.entries()) {
    const { acknowledged } = token;
    let isAcknowledged: boolean;
    {
      await using _ = await attachStrace(service.pid, [`--trace=${call}`, `--inject=${call}:signal=KILL:when=${nth}`]);
      isAcknowledged = await token.renew(service);
      await service.kill9();
    }
    service = await start();
    violations.push(...(await token.check(service, `killed at ${call} ${nth}`)), ...(await findDamage(service)));
    unacknowledged += !isAcknowledged && token.acknowledged > acknowledged ? 1 : 0;
    kills += isAcknowledged ? 0 : 1;
    renewals += (await token.renew(service)) ? 1 : 0;
    await deploy(service, { flows: [{ ...tab("T"), info: `${at}` }, ...flows.slice(1)] }, "nodes");
    violations.push(...(await token.check(service, "after a deployment")));
    await service.send("POST", "/flows:undo", { headers: { "service-deployment-type": "full" } });
    violations.push(...(await token.check(service, "after its undo")));
    progress(`${at + 1} of ${chosen.length} kills at system calls`);
  }
  return { kills, renewals, unacknowledged, violations, control: await lostLog(service, token, start) };
}

/** The calls of a renewal on the database. */
async function listCalls(service: Service, token: Token): Promise<{ call: string; nth: number }[]> {
  await using traced = await attachStrace(service.pid, [`--trace=${storage.join()}`]);
  await token.renew(service);
  return [...countCalls(await traced.end())].flatMap(([call, count]) =>
    Array.from({ length: count }, (_, at) => ({ call, nth: at + 1 })),
  );
}

async function lostLog(before: Service, token: Token, start: () => Promise<Service>): Promise<Control> {
  // What was written before is not in the log any more.
  await before.stop();
  const service = await start();
  await readToken(service, token.id);
  await token.renew(service);
  await service.kill9();
  await rm(join(service.dataDir, "flowgate.db-wal"));
  return {
    planted: "the write-ahead log is deleted while the service is down",
    found: await token.check(await start(), "after the restart"),
  };
}

async function killReplicas({ pick, random, createFolder, progress }: Context) {
  // The server runs as another user if this is root.
  await chmod(tmpdir(), 0o711);
  await using installation = await openInstallation();
  await using server = await openServer(installation);
  const database = await server.createDatabase();
  const config = {
    store: database.url,
    credentialSecret: "a secret that both replicas share",
    runtime: { mode: "one", leaseMs: 2_000 },
    limits: { eventLoopDelayMs: 0 },
  };
  await using services = new AsyncDisposableStack();
  const start = async (): Promise<Service> => {
    const dataDir = await createFolder();
    await installKeeper(dataDir);
    return services.use(await startService({ config, dataDir, ownProcess: true }));
  };
  let [holder, other] = [await start(), await start()];
  const first = await deploy(holder, { flows });
  const tokens = ["k", "l", "m"].map((id) => new Token(id));
  const violations: string[] = [];
  let renewals = 0;
  let deployments = 0;
  const kills = pick(2, 20);
  for (let count = 0; count < kills; count += 1) {
    const running = await untilRunning(holder, other);
    [holder, other] = running;
    const ending = new AbortController();
    const renewing = tokens.map(async (token) => {
      while (!ending.signal.aborted) {
        renewals += (await token.renew(holder)) ? 1 : 0;
      }
    });
    const changes = [
      () => deploy(other, { flows: [{ ...tab("T"), info: `${deployments}` }, ...flows.slice(1)] }, "nodes"),
      () => other.send("POST", "/flows:undo"),
      () => other.send("POST", `/revisions/${first}:restore`, { headers: { "service-deployment-type": "nodes" } }),
    ];
    for (let change = 0; change < pick(3, 6); change += 1) {
      await changes[change % changes.length]?.();
      deployments += 1;
    }
    const before = renewals;
    const more = Math.ceil(random() * 20);
    await eventually(async () => {
      if (renewals < before + more) {
        throw new Error("too few renewals");
      }
    });
    await holder.kill9();
    ending.abort();
    await Promise.all(renewing);
    await untilRunning(other, other);
    const check = async (when: string): Promise<void> => {
      for (const token of tokens) {
        violations.push(...(await token.check(other, when)));
      }
    };
    await check("after a replica was killed");
    await other.send("POST", `/revisions/${first}:restore`);
    await check("after a restore");
    [holder, other] = [other, await start()];
    progress(`${count + 1} of ${kills} kills of a replica`);
  }
  return { kills, renewals, deployments, violations };
}
