import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { systemOrigin } from "../../src/store/audit-store.ts";
import { copyTables } from "../../src/store/sql/copy-tables.ts";
import { lockDataDir } from "../../src/store/lock.ts";
import { migrateStore, findAdapter, openStore, type StoreOptions, verifyAudit } from "../../src/store/open-store.ts";
import type { Store } from "../../src/store/store.ts";
import type { TableWriter } from "../../src/store/adapter.ts";
import { token } from "../auth/memory-tokens.ts";
import { draft } from "./builders.ts";
import { createPostgresPlace, createSqlitePlace, fillStore, type Place, readContent, record } from "./stores.ts";

const credentialSecret = "a secret";
const kinds: [kind: string, create: () => Promise<Place>][] = [
  ["SQLite", createSqlitePlace],
  ["PostgreSQL", createPostgresPlace],
];

function migrate(from: Place, to: Place, options: Partial<Parameters<typeof migrateStore>[0]> = {}) {
  return migrateStore({ from: from.store, to: to.store, dataDir: from.dataDir, credentialSecret, ...options });
}

async function use<T>(
  place: Place,
  work: (store: Store) => Promise<T>,
  options: Partial<StoreOptions> = {},
): Promise<T> {
  await using store = await openStore({ ...place, credentialSecret, ...options });
  return await work(store);
}

/** The rows of a SQLite store. */
function readRows({ dataDir }: Place): Record<string, unknown[]> {
  using db = openDatabase(dataDir);
  const tables = [
    "module_set",
    "module_tarball",
    "revision",
    "revision_content",
    "proposal",
    "proposal_content",
    "idempotency_key",
    "desired_state",
    "document",
    "context_value",
    "node_credential",
    "node_setting",
    "token",
    "audit",
  ];
  return Object.fromEntries(tables.map((table) => [table, db.prepare(`SELECT * FROM ${table}`).all()]));
}

function openDatabase(dataDir: string): DatabaseSync {
  return new DatabaseSync(join(dataDir, "flowgate.db"));
}

/** A new place is empty if the migration of a store to it succeeds, which commits the store's only revision. */
async function expectEmpty(place: Place): Promise<void> {
  await using source = await createSqlitePlace();
  await use(source, async () => {});
  await migrate(source, place);
}

test("SQLite to PostgreSQL and back gives the same rows, and two more audit entries", async () => {
  await using first = await createSqlitePlace();
  await using middle = await createPostgresPlace();
  await using last = await createSqlitePlace();
  await fillStore({ ...first, credentialSecret }, 300);
  const { head } = await verifyAudit(first);

  const { counts, auditProblem } = await migrate(first, middle);
  const { audit: originalAudit = [], ...originalRows } = readRows(first);
  expect([...counts.values()]).toEqual([...Object.values(originalRows), originalAudit].map(({ length }) => length));
  expect(auditProblem).toBeUndefined();
  expect(await use(middle, readContent)).toEqual(await use(first, readContent));
  await migrate(middle, last);

  const { audit = [], ...rows } = readRows(last);
  expect(rows).toEqual(originalRows);
  expect(audit.slice(0, -2)).toEqual(originalAudit);
  expect(audit.slice(-2)).toMatchObject([
    { kind: "store_migrated", user: null, detail: "sqlite to postgres" },
    { kind: "store_migrated", user: null, detail: "postgres to sqlite" },
  ]);
  expect(await verifyAudit(last, head)).toMatchObject({ entries: audit.length, problem: undefined });
});

test.each(kinds)("a store is copied to another one of the same kind, %s", async (_, create) => {
  await using source = await create();
  await using destination = await create();
  await fillStore({ ...source, credentialSecret }, 3);
  const content = await use(source, readContent);
  await migrate(source, destination);
  expect(await use(destination, readContent)).toEqual(content);
});

test.each(kinds)("a store that was migrated to %s continues: commits, tokens, keys of requests", async (_, create) => {
  await using source = await createSqlitePlace();
  await using destination = await create();
  const idempotencyKey = { key: "k", fingerprint: new Uint8Array([1]) };
  const committed = await use(source, async ({ flows, tokens }) => {
    await tokens.insert(token(), record);
    return await flows.commit(draft(flows.active().rev, { idempotencyKey }));
  });
  await migrate(source, destination);
  await use(destination, async ({ flows, tokens, audit }) => {
    expect(flows.active()).toEqual(committed);
    expect(await flows.findRepeated("ada", "k")).toMatchObject({ rev: committed.rev });
    await tokens.insert(token(), record);
    const { seq } = await flows.commit(draft(committed.rev));
    expect(seq).toBe(committed.seq + 1);
    expect((await tokens.list({ limit: 9, nowMs: 0 })).tokens).toHaveLength(2);
    expect(await audit.verify()).toMatchObject({ entries: 5, problem: undefined });
  });
});

test("credentials of the key in the data directory are encrypted with the credentialSecret", async () => {
  await using source = await createSqlitePlace();
  await using destination = await createPostgresPlace();
  await fillStore(source, 6);
  const content = await use(source, readContent, { credentialSecret: undefined });
  await migrate(source, destination);
  expect(await use(destination, readContent)).toEqual(content);
});

test("without the key of the source nothing is copied", async () => {
  await using source = await createSqlitePlace();
  await using destination = await createPostgresPlace();
  await fillStore({ ...source, credentialSecret: "another secret" }, 2);
  await expect(migrate(source, destination)).rejects.toThrow(
    "the credentials can't be decrypted: configure the credentialSecret that was used to store them, or add it to previousCredentialSecrets; " +
      "if none was set, name the data directory with the credential.key of that time",
  );
  await expect(migrate(source, destination, { credentialSecret: undefined })).rejects.toThrow(
    "there is no key for the credentials: name the data directory that contains credential.key with --data-dir, " +
      "FLOWGATE_DATA_DIR or dataDir, or configure credentialSecret",
  );
  await expectEmpty(destination);
});

const changes: [what: string, change: (store: Store) => Promise<unknown>][] = [
  ["a revision", ({ flows }) => flows.commit(draft(flows.active().rev))],
  ["a token", ({ tokens }) => tokens.insert(token(), record)],
  ["an audit entry", ({ audit }) => audit.append([record])],
];

test.each(kinds.flatMap(([kind, create]) => changes.map(([what, change]) => ({ kind, create, what, change }))))(
  "$what in the destination is not overwritten, in $kind",
  async ({ create, change }) => {
    await using source = await createSqlitePlace();
    await using destination = await create();
    await use(source, async () => {});
    await use(destination, change);
    const content = await use(destination, readContent);
    await expect(migrate(source, destination)).rejects.toThrow(
      /^the destination can't be used: .* data.*, which would be overwritten: /,
    );
    expect(await use(destination, readContent)).toEqual(content);
  },
);

test.each(kinds)("the first revision of a service that was started once is replaced, in %s", async (_, create) => {
  await using source = await createSqlitePlace();
  await using destination = await create();
  await use(destination, ({ flows }) =>
    flows.update(flows.active().rev, { outcome: { state: "running", message: undefined, missingTypes: [] } }),
  );
  await fillStore({ ...source, credentialSecret }, 2);
  await migrate(source, destination);
  expect(await use(destination, readContent)).toEqual(await use(source, readContent));
});

test("a SQLite store that a service uses is not migrated, nor replaced", async () => {
  await using used = await createSqlitePlace();
  await using other = await createSqlitePlace();
  await use(used, async () => {});
  await use(other, async () => {});
  using _lock = lockDataDir(used.dataDir);
  await expect(migrate(used, other)).rejects.toThrow("the source can't be used: another Flowgate runs on");
  await expect(migrate(other, used)).rejects.toThrow("the destination can't be used: another Flowgate runs on");
});

test("a PostgreSQL store that replicas use is not migrated, nor replaced", async () => {
  await using used = await createPostgresPlace();
  await using other = await createSqlitePlace();
  await use(other, async () => {});
  const message = "replicas use the database: pod-7. Stop them. If they were killed, wait for 4 seconds.";
  {
    await using replica = await openStore({ ...used, credentialSecret });
    const known = new Promise<void>((resolve) => void replica.cluster?.onChange(resolve));
    replica.cluster?.report({ name: "pod-7", version: "1", mode: "each", state: "running", run: undefined });
    await known;
    await expect(migrate(used, other)).rejects.toThrow(`the source can't be used: ${message}`);
    await expect(migrate(other, used)).rejects.toThrow(`the destination can't be used: ${message}`);
  }
  // It has left.
  await migrate(other, used);
});

test.each(kinds)("while %s is filled, no service can start with it", async (_, create) => {
  await using place = await create();
  const { adapter, location } = await findAdapter(place);
  await using _writer = await adapter.openWriter(location);
  const lock = async (): Promise<void> => lockDataDir(place.dataDir)[Symbol.dispose]();
  // The gateway locks the directory before it opens the store.
  await expect(lock().then(() => use(place, async () => {}))).rejects.toThrow(/another Flowgate runs|lock timeout/);
});

test("while a PostgreSQL store is copied, nothing can be committed to it", async () => {
  await using place = await createPostgresPlace();
  await using store = await openStore({ ...place, credentialSecret });
  const { adapter, location } = await findAdapter(place);
  const commit = () => store.flows.commit(draft(store.flows.active().rev));
  {
    await using _reader = await adapter.openReader(location);
    await expect(commit()).rejects.toMatchObject({ reason: "unavailable" });
  }
  await commit();
});

test("a store of an unreleased version is not copied", async () => {
  await using source = await createSqlitePlace();
  await using destination = await createPostgresPlace();
  await use(source, async () => {});
  {
    using db = openDatabase(source.dataDir);
    db.exec("PRAGMA user_version = 2");
  }
  await expect(migrate(source, destination)).rejects.toThrow(
    /^the source can't be used: .*flowgate.db was created by an unreleased version of Flowgate \(schema version 2;/,
  );
});

test.each([
  ["SQLite", "PostgreSQL", createSqlitePlace, createPostgresPlace],
  ["PostgreSQL", "SQLite", createPostgresPlace, createSqlitePlace],
])("a migration from %s to %s that is killed leaves nothing, and can be repeated", async (_, __, first, second) => {
  await using source = await first();
  await using destination = await second();
  await fillStore({ ...source, credentialSecret }, 30);
  const program = join(import.meta.dirname, "fixtures/migrator.ts");
  const args = [program, source.store, destination.store, source.dataDir, credentialSecret];
  const child: ChildProcess = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout ?? child, "data");
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(await readdir(destination.dataDir)).not.toContain("flowgate.db");
  await expectEmpty(destination);
});

test.each(kinds)("a migration to %s that is aborted leaves nothing", async (_, create) => {
  await using source = await createSqlitePlace();
  await using destination = await create();
  await fillStore({ ...source, credentialSecret }, 3);
  for (const phase of ["copying", "checking"]) {
    const controller = new AbortController();
    const reason = new Error("enough");
    const onProgress = (progress: { phase: string }) => {
      if (progress.phase === phase) {
        controller.abort(reason);
      }
    };
    await expect(migrate(source, destination, { onProgress, signal: controller.signal })).rejects.toBe(reason);
  }
  expect(await readdir(destination.dataDir)).not.toContain("flowgate.db.migrated");
  await expectEmpty(destination);
});

const faults: [fault: string, message: string, change: (writer: TableWriter) => Partial<TableWriter>][] = [
  [
    "loses a row",
    "1 of 2 rows of the table token were copied; the copy was discarded",
    (writer) => ({ write: (table, rows) => writer.write(table, table === "token" ? rows.slice(1) : rows) }),
  ],
  [
    "changes a number",
    "the copied rows of the table revision differ from the original; the copy was discarded",
    (writer) => ({
      write: (table, rows) =>
        writer.write(table, table === "revision" ? rows.map((row) => ({ ...row, committed_at_ms: 1 })) : rows),
    }),
  ],
  [
    "changes a byte of the flows",
    "the copied rows of the table revision_content differ from the original; the copy was discarded",
    (writer) => ({
      write: (table, rows) =>
        writer.write(
          table,
          rows.map((row) =>
            row["flows"] instanceof Uint8Array
              ? { ...row, flows: row["flows"].map((byte, at) => byte ^ +(at === 9)) }
              : row,
          ),
        ),
    }),
  ],
];

test.each(faults)("the check discards a copy that %s", async (_, message, change) => {
  await using source = await createSqlitePlace();
  await using destination = await createSqlitePlace();
  await fillStore({ ...source, credentialSecret }, 3);
  const [from, to] = [await findAdapter(source), await findAdapter(destination)];
  await using reader = await from.adapter.openReader(from.location);
  {
    await using writer = await to.adapter.openWriter(to.location);
    await expect(copyTables(reader, { ...writer, ...change(writer) }, {})).rejects.toThrow(message);
  }
  expect(await readdir(destination.dataDir)).toEqual(["flowgate.lock"]);
});

test("an audit log that was changed is copied as it is, and reported", async () => {
  await using source = await createSqlitePlace();
  await using destination = await createPostgresPlace();
  await use(source, ({ audit }) => audit.append([record, record, record]));
  {
    using db = openDatabase(source.dataDir);
    db.exec("UPDATE audit SET detail = 'forged' WHERE seq = 2; UPDATE audit_head SET seq = 2");
  }
  const auditProblem = "entry 2 was changed, or is not the one that followed entry 1";
  expect(await migrate(source, destination)).toMatchObject({ auditProblem });
  expect(await verifyAudit(destination)).toMatchObject({ problem: auditProblem });
  expect(await use(destination, ({ audit }) => audit.list({ limit: 1, order: "newest" }))).toMatchObject({
    entries: [{ kind: "store_migrated", seq: 4, origin: systemOrigin }],
  });
});

test("a log whose oldest entries were removed is intact at the destination", async () => {
  await using source = await createSqlitePlace();
  await using destination = await createPostgresPlace();
  await use(source, async ({ audit }) => {
    await audit.append([record, record, record]);
    await audit.prune(-60_000);
  });
  expect(await migrate(source, destination)).toMatchObject({ auditProblem: undefined });
  expect(await verifyAudit(destination)).toMatchObject({ entries: 3, problem: undefined });
});

test("U+0000, which PostgreSQL can't store, is replaced", async () => {
  await using source = await createSqlitePlace();
  await using destination = await createPostgresPlace();
  const { rev } = await use(source, ({ flows }) => flows.commit(draft(flows.active().rev, { message: "a\0b" })));
  await migrate(source, destination);
  expect(await use(destination, ({ flows }) => flows.findEntry(rev))).toMatchObject({ message: "a\ufffdb" });
});

test("errors do not contain the password of a URL", async () => {
  await using source = await createSqlitePlace();
  await use(source, async () => {});
  const urls = [
    "postgres://ada:hunter2@127.0.0.1:1/db",
    "postgres://ada:hunter2@/?sslmode=x",
    "postgresq://a:hunter2@h/d",
  ];
  for (const to of urls) {
    const error = await migrate(source, { ...source, store: to }).then(
      () => "",
      ({ message }: Error) => message,
    );
    expect(error).toMatch(/store/);
    expect(error).not.toContain("hunter2");
  }
});
