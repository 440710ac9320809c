import { readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { backupStore, openStore, restoreStore, verifyAudit } from "../../src/store/open-store.ts";
import { draft } from "./builders.ts";
import { createPostgresPlace, createSqlitePlace, fillStore, readContent } from "./stores.ts";

const credentialSecret = "a secret";

test("a backup made while the store is used has one point in time, and is restored to either kind without tokens", async () => {
  await using source = await createPostgresPlace();
  await fillStore({ ...source, credentialSecret }, 20);
  await using store = await openStore({ ...source, credentialSecret });
  const before = (await readContent(store)) as { revisions: unknown[]; contents: unknown[] };
  const { head } = await store.audit.verify();

  const file = join(source.dataDir, "backup.db");
  const over = new AbortController();
  const load = (async () => {
    let commits = 0;
    for (; !over.signal.aborted; commits += 1) {
      await store.flows.commit(draft(store.flows.active().rev));
    }
    return commits;
  })();
  await backupStore({ ...source, credentialSecret }, file);
  over.abort();
  expect(await load).toBeGreaterThan(0);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect((await readdir(source.dataDir)).filter((name) => name.startsWith("backup"))).toEqual(["backup.db"]);
  {
    using copy = new DatabaseSync(file);
    expect(copy.prepare("SELECT count(*) AS count FROM token").get()).toEqual({ count: 2 });
  }

  await using postgres = await createPostgresPlace();
  await using sqlite = await createSqlitePlace();
  for (const place of [postgres, sqlite]) {
    const options = { ...place, credentialSecret };
    expect(await restoreStore(file, options)).toBeUndefined();
    await using restored = await openStore(options);
    const content = (await readContent(restored)) as typeof before & { tokens: unknown[] };
    expect(content.tokens).toEqual([]);
    // The backup also has some of the revisions that were committed meanwhile, which replaced the newest one.
    expect(content.revisions.slice(-before.revisions.length)).toMatchObject(
      before.revisions.map((entry, index) =>
        index === 0 ? { rev: (entry as { rev: string }).rev } : (entry as object),
      ),
    );
    expect(content.contents.slice(-before.contents.length)).toEqual(before.contents);
    expect(await verifyAudit(options, head)).toMatchObject({ problem: undefined });
    const { entries } = await restored.audit.list({ limit: 1, order: "newest" });
    expect(entries).toMatchObject([{ kind: "store_restored" }]);
  }
});

test("a backup of SQLite is restored to PostgreSQL, with its credentials encrypted again", async () => {
  await using source = await createSqlitePlace();
  await using destination = await createPostgresPlace();
  await fillStore(source, 5);
  const file = join(source.dataDir, "backup.db");
  await backupStore(source, file);
  // The data directory with the credential.key of the backup.
  await restoreStore(file, { store: destination.store, dataDir: source.dataDir, credentialSecret });
  await using original = await openStore(source);
  await using restored = await openStore({ ...destination, credentialSecret });
  expect(await readContent(restored)).toEqual({ ...((await readContent(original)) as object), tokens: [] });
});

test("a backup does not replace a file, and is not restored over data", async () => {
  await using place = await createPostgresPlace();
  const options = { ...place, credentialSecret };
  await fillStore(options, 2);
  const [file, taken] = [join(place.dataDir, "backup.db"), join(place.dataDir, "taken.db")];
  await backupStore(options, file);
  await expect(restoreStore(file, options)).rejects.toThrow(
    "the database has the data of a store, which would be overwritten: create another database, or remove the data with DROP SCHEMA flowgate CASCADE",
  );
  await writeFile(taken, "mine");
  await expect(backupStore(options, taken)).rejects.toThrow(`${taken} already exists`);
  await expect(backupStore(options, join(place.dataDir, "none/backup.db"))).rejects.toThrow("does not exist");
  await expect(restoreStore(join(place.dataDir, "none.db"), options)).rejects.toThrow(
    "none.db does not exist: name a file created by flowgate backup",
  );
  expect((await readdir(place.dataDir)).toSorted()).toEqual(["backup.db", "taken.db"]);
});

test("a database that has no store is not backed up", async () => {
  await using place = await createPostgresPlace();
  const file = join(place.dataDir, "backup.db");
  await expect(backupStore({ ...place, credentialSecret }, file)).rejects.toThrow("contains no flows");
  expect(await readdir(place.dataDir)).toEqual([]);
});
