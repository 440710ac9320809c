import { chmod, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout } from "node:timers/promises";
import { type CredentialKey, CredentialKeys, deriveKey } from "../../src/store/credential-keys.ts";
import { openCredentials } from "../../src/store/credentials.ts";
import { readKeys } from "../../src/store/key-files.ts";
import { encryptAgain, encryptedColumns } from "../../src/store/sql/encrypted-columns.ts";
import type { Query } from "../../src/store/sql/query.ts";
import { queryOf } from "../../src/store/sqlite/connection.ts";
import { startCli } from "../../test/cli/running-cli.ts";
import { deploy } from "../../test/e2e/deploy.ts";
import { tab } from "../../test/e2e/flow-builders.ts";
import { askKeeper, installKeeper, keeper } from "../../test/e2e/keeper.ts";
import { eventually, type Service, startService } from "../../test/e2e/service.ts";
import { openInstallation } from "../../test/postgres/installation.ts";
import { openServer } from "../../test/postgres/server.ts";
import type { Context } from "../context.ts";
import type { Drill } from "../drill.ts";
import { ipcrm, strace } from "../programs.ts";
import { countCalls, parseTrace } from "../strace.ts";
import { Token } from "../tokens.ts";

export const rotation: Drill = {
  name: "rotation",
  title: "Rotation of the secret of credentials, under SIGKILL",
  promise:
    "`flowgate credentials rotate` and the services that use the store can be killed at any point: no acknowledged credential is lost, the services can read everything, and the same command continues the rotation. Once it is complete, nothing needs the previous secret.",
  method:
    "The key of a SQLite service, and the secret of two PostgreSQL replicas, are rotated while credentials are deployed and a node renews its token. The command is killed at another system call each time, in half of the rounds a service too. Every encrypted value is decrypted and compared, and after completion decrypted with the new key alone.",
  programs: [strace, ipcrm],
  async run(context) {
    const results = [
      await killRotations(context, await openSqliteSite(context), context.pick(2, 45)),
      await killRotations(context, await openPostgresSite(context), context.pick(1, 20)),
    ];
    const sum = (count: (result: (typeof results)[number]) => number): number =>
      results.reduce((total, result) => total + count(result), 0);
    return {
      loads: [
        { name: "kills of a rotation", count: sum(({ kills }) => kills), minimum: context.pick(2, 60) },
        { name: "kills of a service", count: sum(({ serviceKills }) => serviceKills), minimum: context.pick(1, 20) },
        { name: "acknowledged writes", count: sum(({ writes }) => writes), minimum: context.pick(20, 1_000) },
      ],
      figures: [{ name: "values that were decrypted", value: sum(({ decrypted }) => decrypted), unit: "" }],
      violations: results.flatMap(({ violations }) => violations),
      controls: results.map(({ control }) => control),
    };
  },
};

/** Services that use one store, and the command that rotates its key. */
type Site = AsyncDisposable & {
  /** Those that run. */
  readonly services: Set<Service>;
  start(): Promise<void>;
  /** The system calls of the command by which it changes something. */
  readonly calls: readonly string[];
  /** The arguments of the command. */
  readonly args: readonly string[];
  /** Lets the services know the next secret. */
  prepare(): Promise<void>;
  readonly query: Query;
  /** All keys, the one of the last rotation first. */
  keys(): Promise<readonly CredentialKey[]>;
};

const flows = [tab("T"), keeper("k"), keeper("l")];
/** Few revisions, since each is decrypted in each round. */
const history = { maxRevisions: 8 };

/** A service with a key in its data directory. */
async function openSqliteSite({ createFolder }: Context): Promise<Site> {
  await using stack = new AsyncDisposableStack();
  const dataDir = await createFolder();
  await installKeeper(dataDir);
  const services = new Set<Service>();
  const started = stack.use(new AsyncDisposableStack());
  const start = async () => {
    services.add(started.use(await startService({ config: { history }, dataDir, ownProcess: true })));
  };
  await start();
  const db = stack.adopt(new DatabaseSync(join(dataDir, "flowgate.db"), { timeout: 60_000 }), (each) => each.close());
  const resources = stack.move();
  return {
    services,
    start,
    calls: ["pwrite64", "write", "fsync", "fdatasync", "ftruncate", "link", "rename", "unlink"],
    args: ["credentials", "rotate", "--data-dir", dataDir],
    async prepare() {},
    query: queryOf(db),
    keys: () => readKeys({ dataDir }),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** Two replicas, whose configuration has the secret. */
async function openPostgresSite({ createFolder }: Context): Promise<Site> {
  await using stack = new AsyncDisposableStack();
  // The server runs as another user if this is root.
  await chmod(tmpdir(), 0o711);
  const server = stack.use(await openServer(stack.use(await openInstallation())));
  const database = await server.createDatabase();
  const secrets = ["the first secret"];
  const config = () => ({
    store: database.url,
    credentialSecret: secrets[0],
    previousCredentialSecrets: secrets.slice(1),
    runtime: { mode: "one", leaseMs: 2_000 },
    limits: { eventLoopDelayMs: 0 },
    history,
  });
  const services = new Set<Service>();
  const started = stack.use(new AsyncDisposableStack());
  const start = async () => {
    const dataDir = await createFolder();
    await installKeeper(dataDir);
    services.add(started.use(await startService({ config: config(), dataDir, ownProcess: true })));
  };
  await start();
  await start();
  const folder = await createFolder();
  const path = join(folder, "flowgate.yaml");
  const resources = stack.move();
  return {
    services,
    start,
    calls: ["write", "writev", "sendto"],
    args: ["credentials", "rotate", "--config", path, "--data-dir", folder],
    async prepare() {
      secrets.unshift(`secret ${secrets.length + 1}`);
      await writeFile(path, JSON.stringify(config()));
      for (const service of services) {
        await service.replaceConfig(config());
      }
    },
    query: (text, values) => database.query(text, values),
    keys: async () => secrets.map(deriveKey),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** What was acknowledged. */
class Acknowledged {
  /** Renewed by a node. */
  readonly token = new Token("k");
  /** The credential of the other node in each revision, which grows. */
  readonly deployed = new Map<string, string>();
  writes = 0;

  /** Deploys and renews until it is disposed of. */
  write({ services }: Site): AsyncDisposable {
    const ending = new AbortController();
    const repeat = async (work: (service: Service) => Promise<boolean>): Promise<void> => {
      while (!ending.signal.aborted) {
        for (const service of services) {
          const isAcknowledged = await work(service).catch(() => false);
          this.writes += isAcknowledged ? 1 : 0;
          if (!isAcknowledged) {
            await setTimeout(20);
          }
        }
        if (services.size === 0) {
          await setTimeout(20);
        }
      }
    };
    const working = [
      repeat((service) => this.token.renew(service)),
      repeat(async (service) => {
        const token = `${this.deployed.size + 1}`;
        const rev = await deploy(service, { flows, credentials: { l: { token } } }, "nodes");
        this.deployed.set(rev, token);
        return true;
      }),
    ];
    return {
      async [Symbol.asyncDispose]() {
        ending.abort();
        await Promise.all(working);
      },
    };
  }
}

async function killRotations({ random, progress }: Context, opened: Site, wanted: number) {
  await using site = opened;
  const acknowledged = new Acknowledged();
  await deploy(firstOf(site.services), { flows });
  const violations: string[] = [];
  let [kills, serviceKills, decrypted] = [0, 0, 0];

  async function check(when: string, keys: readonly CredentialKey[]): Promise<string[]> {
    const { count, problems } = await findProblems(site, keys, acknowledged);
    decrypted += count;
    return problems.map((problem) => `${when}, ${problem}`);
  }

  async function complete(): Promise<void> {
    await using _ = acknowledged.write(site);
    await using command = startCli(site.args);
    const { code, stderr } = await command.ended;
    violations.push(...(code === 0 ? [] : [`the rotation ended with ${code}: ${stderr}`]));
  }

  await site.prepare();
  const calls = await listCalls(site);
  // A rotation that waits for services makes other calls, and may be complete before the one that kills it.
  for (let round = 0; kills < wanted && round < 4 * wanted; round += 1) {
    await site.prepare();
    const { call, nth } = calls[Math.floor(random() * calls.length)] ?? { call: "", nth: 0 };
    {
      await using _ = acknowledged.write(site);
      await using command = startCli(site.args, {}, launcher([call], `--inject=${call}:signal=KILL:when=${nth}`));
      if (round % 2 === 0) {
        // When the services write with the new secret, or the command was killed before.
        await command.until(/from now on/).catch(() => {});
        const killed = [...site.services][Math.floor(random() * site.services.size)] as Service;
        site.services.delete(killed);
        await killed.kill9();
        serviceKills += 1;
      }
      kills += (await command.ended).code === null ? 1 : 0;
    }
    const when = `after a kill at ${call} ${nth}`;
    violations.push(...(await check(when, await site.keys())));
    if (round % 2 === 0) {
      await site.start();
    }
    await complete();
    const [newest] = (await site.keys()) as [CredentialKey];
    violations.push(...(await check(`${when} and the rotation after it`, [newest])));
    const running = await eventually(() =>
      Promise.any([...site.services].map((service) => askKeeper(service, "/keeper", { id: "k" }).then(() => service))),
    );
    violations.push(...(await acknowledged.token.check(running, when)));
    progress(`${kills} of ${wanted} kills of a rotation`);
  }
  const previous = (await site.keys()).slice(1);
  const control = {
    planted: "a rotation after which only the previous keys are known",
    found: await check("at the end", previous),
  };
  return { kills, serviceKills, decrypted, violations, control, writes: acknowledged.writes };
}

function firstOf(services: ReadonlySet<Service>): Service {
  const [first] = services;
  return first as Service;
}

/** Starts a command under strace, with this output. */
function launcher(calls: readonly string[], ...args: readonly string[]): string[] {
  return ["strace", "-f", "-y", "-o", "/dev/null", `--trace=${calls.join()}`, ...args];
}

/** Rotates, and returns the system calls of that. */
async function listCalls({ args, calls }: Site): Promise<{ call: string; nth: number }[]> {
  const output = join(await mkdtemp(join(tmpdir(), "strace-")), "trace");
  await using command = startCli(args, {}, launcher(calls, "-o", output));
  const { code, stderr } = await command.ended;
  if (code !== 0) {
    throw new Error(`the rotation ended with ${code}: ${stderr}`);
  }
  return [...countCalls(parseTrace(await readFile(output, "latin1")))].flatMap(([call, count]) =>
    Array.from({ length: count }, (_, at) => ({ call, nth: at + 1 })),
  );
}

/** Decrypts everything, and compares it with what was acknowledged. Returns a description of each fault. */
async function findProblems({ query }: Site, keys: readonly CredentialKey[], { token, deployed }: Acknowledged) {
  const [first, ...others] = keys as [CredentialKey];
  const problems: string[] = [];
  let count = 0;
  for (const [table, encrypted] of encryptedColumns) {
    const { column, namedBy, nameColumn, noun } = encrypted;
    const rows = await query<{ name: unknown; value: Uint8Array }>(
      `SELECT named.${nameColumn} AS name, held.${column} AS value
       FROM flowgate.${table} AS held JOIN flowgate.${namedBy} AS named ON named.seq = held.seq WHERE held.${column} IS NOT NULL`,
    );
    count += rows.length;
    const unreadable = rows.filter((row) => encryptAgain(encrypted, row, first, others) === "unreadable");
    problems.push(...unreadable.map(({ name }) => `${noun} ${String(name)} can't be decrypted`));
  }
  if (problems.length > 0) {
    return { count, problems };
  }
  const revisions = await query<{ rev: string; credentials: Uint8Array }>(
    "SELECT rev, credentials FROM flowgate.revision JOIN flowgate.revision_content USING (seq)",
  );
  const known = new CredentialKeys(keys);
  for (const { rev, credentials } of revisions) {
    const found = openCredentials(known, rev, credentials).get("l")?.get("token");
    const expected = deployed.get(rev);
    if (expected !== undefined && found !== expected) {
      problems.push(`revision ${rev} has the credential ${JSON.stringify(found)} instead of ${expected}`);
    }
  }
  const newest = [...deployed.keys()].at(-1);
  if (newest !== undefined && !revisions.some(({ rev }) => rev === newest)) {
    problems.push(`the acknowledged revision ${newest} is lost`);
  }
  const [row] = await query<{ credentials: Uint8Array }>("SELECT credentials FROM flowgate.node_credential");
  if (token.acknowledged > 0 && row === undefined) {
    problems.push("what a node has stored is lost");
  }
  return { count, problems };
}
