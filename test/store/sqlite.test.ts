import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmod, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { openSqliteStore } from "../../src/store/sqlite/open-store.ts";
import { migrate } from "../../src/store/sqlite/schema.ts";
import type { Store } from "../../src/store/store.ts";
import { documentOf } from "../../packages/flows/test/builders.ts";
import { createFolder, draft, type Folder, readFolder } from "./builders.ts";
import type { StoreLocation } from "./contract.ts";
import { storeContract } from "./store-contract.ts";

async function createLocation(): Promise<StoreLocation> {
  const folder = await createFolder();
  const key = randomBytes(32);
  return {
    open: () => openSqliteStore({ path: join(folder.path, "flowgate.db"), key }),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

storeContract(createLocation);

const key = randomBytes(32);

function databasePath(folder: Folder): string {
  return join(folder.path, "data", "flowgate.db");
}

async function commitOne(store: Store) {
  return store.flows.commit(draft(store.flows.active().rev));
}

test("keeps earlier revisions", async () => {
  await using folder = await createFolder();
  const path = databasePath(folder);
  const store = await openSqliteStore({ path, key });
  const revisions = [store.flows.active(), await commitOne(store), await commitOne(store)];
  await store[Symbol.asyncDispose]();
  using db = new DatabaseSync(path);
  const rows = db.prepare("SELECT rev, parent FROM revision ORDER BY seq").all();
  expect(rows.map(({ rev }) => rev)).toEqual(revisions.map(({ rev }) => rev));
  expect(rows.map(({ parent }) => parent)).toEqual([null, revisions[0]?.rev, revisions[1]?.rev]);
});

test("the database schema rejects a second child of a revision, and a second root", async () => {
  await using folder = await createFolder();
  const path = databasePath(folder);
  const store = await openSqliteStore({ path, key });
  await commitOne(store);
  await store[Symbol.asyncDispose]();
  using db = new DatabaseSync(path);
  const copy = `INSERT INTO revision (seq, rev, parent, committed_at_ms, deployment_type, cause, node_count, size_bytes)
    SELECT seq + 10, 'copy', parent, 0, 'full', 'deployment', 0, 0 FROM revision WHERE seq =`;
  expect(() => db.exec(`${copy} 2`)).toThrow("UNIQUE constraint failed: revision.parent");
  expect(() => db.exec(`${copy} 1`)).toThrow("UNIQUE constraint failed: index 'one_root'");
});

test("removed revisions give their space back", async () => {
  await using folder = await createFolder();
  const path = databasePath(folder);
  const size = async (): Promise<number> => (await stat(path)).size;
  const commits = 40;
  {
    await using store = await openSqliteStore({ path, key });
    for (let count = 0; count < commits; count++) {
      const flows = documentOf([{ id: "a", type: randomBytes(200_000).toString("base64") }]);
      await store.flows.commit(draft(store.flows.active().rev, { flows }));
    }
  }
  const before = await size();
  {
    await using store = await openSqliteStore({ path, key });
    expect(await store.flows.prune({ maxCount: 2, maxAgeMs: undefined })).toBe(commits + 1 - 2);
  }
  expect(await size()).toBeLessThan(before / 4);
});

test("no file contains credentials in plain text", async () => {
  await using folder = await createFolder();
  const path = databasePath(folder);
  await using store = await openSqliteStore({ path, key });
  await store.flows.commit(
    draft(store.flows.active().rev, {
      flows: documentOf([{ id: "visible-node", type: "t" }]),
      credentials: new Map([["visible-node", new Map([["plain-name", "plain-value"]])]]),
    }),
  );
  const files = await readFolder(join(folder.path, "data"));
  expect([...files.keys()].toSorted()).toEqual(["flowgate.db", "flowgate.db-shm", "flowgate.db-wal"]);
  expect([...files.values()].some((bytes) => bytes.includes("plain-name"))).toBe(false);
  expect([...files.values()].some((bytes) => bytes.includes("plain-value"))).toBe(false);
  // Shows that the search would find plain text: a small document is readable in spite of compression.
  expect([...files.values()].some((bytes) => bytes.includes("visible-node"))).toBe(true);
});

test("makes the files private to their owner, whatever umask and mode they had", async () => {
  await using folder = await createFolder();
  const path = databasePath(folder);
  const modes = () =>
    Promise.all([path, `${path}-wal`, `${path}-shm`].map(async (file) => (await stat(file)).mode & 0o777));
  const first = await openSqliteStore({ path, key });
  expect(await modes()).toEqual([0o600, 0o600, 0o600]);
  await first[Symbol.asyncDispose]();
  await chmod(path, 0o644);
  await using _ = await openSqliteStore({ path, key });
  expect(await modes()).toEqual([0o600, 0o600, 0o600]);
});

test("rejects another key when it is opened, and keeps the data", async () => {
  await using folder = await createFolder();
  const path = databasePath(folder);
  const first = await openSqliteStore({ path, key });
  const revision = await commitOne(first);
  await first[Symbol.asyncDispose]();
  await expect(openSqliteStore({ path, key: randomBytes(32) })).rejects.toThrow(
    "The stored credentials can't be decrypted with this credentialSecret. Set the one that was used to store them, or add it to previousCredentialSecrets. " +
      "If none was set, leave it out and restore the credential.key of that time to the data directory.",
  );
  await using again = await openSqliteStore({ path, key });
  expect(again.flows.active()).toEqual(revision);
});

test("rejects another key for a store without credentials", async () => {
  await using folder = await createFolder();
  const path = databasePath(folder);
  await (await openSqliteStore({ path, key }))[Symbol.asyncDispose]();
  await expect(openSqliteStore({ path, key: randomBytes(32) })).rejects.toThrow("can't be decrypted");
});

test("migrates to the schema of a next version once, and refuses it afterwards", async () => {
  await using folder = await createFolder();
  const [path, fresh] = [join(folder.path, "flowgate.db"), join(folder.path, "fresh.db")];
  const { rev } = await (async () => {
    await using store = await openSqliteStore({ path, key });
    return commitOne(store);
  })();
  const next = ["ALTER TABLE revision ADD COLUMN next TEXT NOT NULL DEFAULT 'yes'"];
  for (const file of [path, path, fresh]) {
    using db = new DatabaseSync(file);
    migrate(db, file, next);
    expect(db.prepare("SELECT count(*) AS count FROM pragma_table_info('revision') WHERE name = 'next'").get()).toEqual(
      { count: 1 },
    );
  }
  {
    using db = new DatabaseSync(path);
    expect(db.prepare("SELECT next FROM revision WHERE rev = ?").get(rev)).toEqual({ next: "yes" });
  }
  await expect(openSqliteStore({ path, key })).rejects.toThrow("(schema version 18; this one supports 17)");
});

const unusable: [name: string, prepare: (path: string) => Promise<void>, message: (path: string) => string][] = [
  [
    "a newer version's database",
    async (path) => {
      await (await openSqliteStore({ path, key }))[Symbol.asyncDispose]();
      execute(path, "PRAGMA user_version = 99");
    },
    (path) => `${path} was created by a newer version of Flowgate (schema version 99; this one supports`,
  ],
  [
    "an unreleased version's database",
    async (path) => {
      await (await openSqliteStore({ path, key }))[Symbol.asyncDispose]();
      execute(path, "PRAGMA user_version = 16");
    },
    (path) =>
      `${path} was created by an unreleased version of Flowgate (schema version 16; this one supports 17 and later): export the flows with that version, and deploy them to a new store.`,
  ],
  [
    "another program's database",
    async (path) => execute(path, "PRAGMA application_id = 7; CREATE TABLE t (x)"),
    (path) => `${path} is the database of another program: use another file.`,
  ],
  [
    "a database without application_id",
    async (path) => execute(path, "CREATE TABLE t (x)"),
    (path) => `${path} is the database of another program: use another file.`,
  ],
  [
    "a text file",
    (path) => writeFile(path, "not a database ".repeat(100)),
    (path) => `${path} is not a SQLite database, or is damaged: restore it from a backup, or use another file.`,
  ],
];

function execute(path: string, sql: string): void {
  using db = new DatabaseSync(path);
  db.exec(sql);
}

test.each(unusable)("rejects %s, and leaves the file unchanged", async (_, prepare, message) => {
  await using folder = await createFolder();
  const path = join(folder.path, "flowgate.db");
  await prepare(path);
  const before = await readFolder(folder.path);
  await expect(openSqliteStore({ path, key })).rejects.toThrow(message(path));
  expect(await readFolder(folder.path)).toEqual(before);
});

type Acknowledged = { rev: string; parent: string };

/** Starts a process that commits in a loop, and kills it with SIGKILL after `count` acknowledged deployments. */
function commitUntilKilled(path: string, count: number): Promise<Acknowledged[]> {
  const child = spawn(
    process.execPath,
    [join(import.meta.dirname, "fixtures/committer.ts"), path, key.toString("hex")],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  const acknowledged: Acknowledged[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => {
    acknowledged.push(JSON.parse(line) as Acknowledged);
    if (acknowledged.length >= count) {
      child.kill("SIGKILL");
    }
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (_, signal) => {
      if (signal === "SIGKILL") {
        resolve(acknowledged);
      } else {
        reject(new Error("the committer exited unexpectedly"));
      }
    });
  });
}

function history(path: string): string[] {
  using db = new DatabaseSync(path);
  return db
    .prepare("SELECT rev FROM revision ORDER BY seq")
    .all()
    .map(({ rev }) => String(rev));
}

test("a killed process loses no acknowledged deployment", async () => {
  await using folder = await createFolder();
  const path = databasePath(folder);
  for (const count of [1, 2, 7, 40]) {
    const acknowledged = await commitUntilKilled(path, count);
    await using store = await openSqliteStore({ path, key });
    const active = store.flows.active();
    const kept = history(path);
    expect(acknowledged.filter(({ rev }) => !kept.includes(rev))).toEqual([]);
    // At most one more, which was committed but not acknowledged when the process was killed.
    expect(kept.length - 1 - kept.indexOf(acknowledged.at(-1)?.rev ?? "")).toBeLessThanOrEqual(1);
    expect(active.rev).toBe(kept.at(-1));
    expect(active.credentials).toEqual(new Map([["a", new Map([["parent", kept.at(-2)]])]]));
    // One for each deployment.
    expect(await store.audit.verify()).toMatchObject({ entries: kept.length - 1, problem: undefined });
  }
});

test("concurrent processes never commit the same parent twice, and lose no acknowledged deployment", async () => {
  await using folder = await createFolder();
  const path = databasePath(folder);
  const acknowledged = (await Promise.all([1, 2, 3].map(() => commitUntilKilled(path, 20)))).flat();
  const kept = history(path);
  expect(new Set(acknowledged.map(({ parent }) => parent)).size).toBe(acknowledged.length);
  expect(acknowledged.filter(({ rev }) => !kept.includes(rev))).toEqual([]);
  await using store = await openSqliteStore({ path, key });
  expect(store.flows.active().rev).toBe(kept.at(-1));
});

test("is not usable while the database fails, and recovers automatically", async () => {
  await using folder = await createFolder();
  const path = databasePath(folder);
  await using store = await openSqliteStore({ path, key });
  const { promise: recovered, resolve } = Promise.withResolvers<void>();
  store.onHealthChange(() => {
    if (store.health().isUsable) {
      resolve();
    }
  });
  execute(path, "ALTER TABLE revision RENAME TO renamed");
  await expect(commitOne(store)).rejects.toThrow("no such table");
  expect(store.health()).toEqual({ isUsable: false, message: "the database can't be used (SQLite's error 1)" });
  execute(path, "ALTER TABLE renamed RENAME TO revision");
  await recovered;
  await commitOne(store);
  expect(store.health()).toEqual({ isUsable: true });
});
