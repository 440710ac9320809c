import { spawn } from "node:child_process";
import { once } from "node:events";
import { open, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import type { JournalEntry, JournalStore } from "../../src/store/journal-store.ts";
import { openSqliteJournal } from "../../src/store/sqlite/journal-store.ts";
import { createFolder } from "./builders.ts";

function openAt(path: string): { readonly journal: JournalStore; readonly replaced: readonly string[] } {
  const replaced: string[] = [];
  return { journal: openSqliteJournal(path, { onReplaced: (reason) => void replaced.push(reason) }), replaced };
}

function entry(seq: number): JournalEntry {
  const node = { flowId: "", nodeId: "", nodeType: "", nodeName: "" };
  return { seq, timeMs: seq, runtime: "", kind: "log", level: 4, ...node, data: new Uint8Array(1_000).fill(seq % 256) };
}

async function seqs(journal: JournalStore): Promise<readonly number[]> {
  const { entries } = await journal.list({ limit: 100_000, order: "oldest", kinds: ["log"] });
  return entries.map(({ seq }) => seq);
}

test("the file is private to its owner", async () => {
  await using folder = await createFolder();
  const path = join(folder.path, "journal.db");
  const { journal } = openAt(path);
  await using _ = journal;
  await journal.append([entry(1)]);
  const modes = await Promise.all([path, `${path}-wal`].map(async (file) => (await stat(file)).mode & 0o777));
  expect(modes).toEqual([0o600, 0o600]);
});

test("every entry that was written is there after a kill of the process", async () => {
  await using folder = await createFolder();
  const path = join(folder.path, "journal.db");
  const fixture = new URL("fixtures/recorder.ts", import.meta.url).pathname;
  let last = 0;
  for (let kills = 1; kills <= 3; kills++) {
    const child = spawn(process.execPath, [fixture, path], { stdio: ["ignore", "pipe", "inherit"] });
    const exited = once(child, "exit");
    for await (const line of createInterface(child.stdout)) {
      last = Number(line);
      if (last >= kills * 500) {
        child.kill("SIGKILL");
      }
    }
    await exited;
    const { journal, replaced } = openAt(path);
    await using _ = journal;
    const all = await seqs(journal);
    expect(all.length).toBeGreaterThanOrEqual(last);
    expect(all).toEqual(Array.from({ length: all.length }, (_each, at) => at + 1));
    expect(replaced).toEqual([]);
    last = all.length;
  }
});

test("a file that is no database is replaced, with the reason", async () => {
  await using folder = await createFolder();
  const path = join(folder.path, "journal.db");
  await writeFile(path, "not a database, but longer than its header ".repeat(100));
  const { journal, replaced } = openAt(path);
  await using _ = journal;
  expect(await journal.lastSeq("")).toBe(0);
  expect(replaced).toEqual(["file is not a database"]);
  await journal.append([entry(1)]);
  expect(await seqs(journal)).toEqual([1]);
  expect(replaced).toHaveLength(1);
});

test("a file with damaged pages is replaced as soon as they are read", async () => {
  await using folder = await createFolder();
  const path = join(folder.path, "journal.db");
  {
    const { journal } = openAt(path);
    await using _ = journal;
    await journal.append(Array.from({ length: 500 }, (_each, at) => entry(at + 1)));
  }
  const { size } = await stat(path);
  await using file = await open(path, "r+");
  await file.write(new Uint8Array(size - 8_192).fill(0xaa), 0, size - 8_192, 8_192);
  const { journal, replaced } = openAt(path);
  await using _ = journal;
  expect(await seqs(journal)).toEqual([]);
  expect(replaced).toEqual(["database disk image is malformed"]);
  await journal.append([entry(1_000)]);
  expect(await seqs(journal)).toEqual([1_000]);
});

test("a journal of another version is replaced, and the database of another program too", async () => {
  await using folder = await createFolder();
  const path = join(folder.path, "journal.db");
  {
    using db = new DatabaseSync(path);
    db.exec("CREATE TABLE event (seq INTEGER); PRAGMA user_version = 99");
  }
  const { journal, replaced } = openAt(path);
  await using _ = journal;
  await journal.append([entry(1)]);
  expect(replaced).toEqual(["it is not a journal of this version"]);
});

test("what is removed is given back to the disk", async () => {
  await using folder = await createFolder();
  const path = join(folder.path, "journal.db");
  {
    const { journal } = openAt(path);
    await using _ = journal;
    await journal.append(Array.from({ length: 5_000 }, (_each, at) => entry(at + 1)));
    await journal.prune({ maxBytes: 1_000_000, fromMs: 0 });
  }
  expect((await readFile(path)).length).toBeLessThan(1_100_000);
});

test("an entry that can't be written keeps none of its batch", async () => {
  await using folder = await createFolder();
  const { journal } = openAt(join(folder.path, "journal.db"));
  await using _ = journal;
  await journal.append([entry(1)]);
  await expect(journal.append([entry(2), { ...entry(3), timeMs: Number.NaN }])).rejects.toThrow(
    "NOT NULL constraint failed",
  );
  expect(await seqs(journal)).toEqual([1]);
});
