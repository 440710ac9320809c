import { randomBytes } from "node:crypto";
import pg from "pg";
import { expect, test } from "vitest";
import { eventually } from "../e2e/service.ts";
import { createDatabase, startServer } from "../postgres/postgres.ts";
import { openAt } from "./postgres-location.ts";

test("an entry that another replica commits late is read, though later ones were committed before", async () => {
  await using database = await createDatabase();
  await using store = await openAt(database.url, randomBytes(32));
  await using journal = store.openJournal({ onReplaced() {} });
  const after = (await journal.claimCursor({ name: "c", holder: "a", forMs: 60_000 })) ?? "";
  const read = async (position: string) => {
    const { entries, ...rest } = await journal.read({ after: position, limit: 10, kinds: ["log"] });
    return { seqs: entries.map(({ seq }) => seq), ...rest };
  };
  const other = new pg.Client({ connectionString: database.url });
  await other.connect();
  try {
    await other.query("BEGIN");
    await other.query(`INSERT INTO flowgate.event (seq, runtime, time_ms, kind, flow_id, node_id, node_type, node_name, data)
      VALUES (1, 'b', 1, 'log', '', '', '', '', '')`);
    const node = { flowId: "", nodeId: "", nodeType: "", nodeName: "" };
    await journal.append([
      { seq: 2, timeMs: 2, runtime: "a", kind: "log", level: undefined, ...node, data: Uint8Array.of() },
    ]);
    const early = await read(after);
    expect(early).toEqual({ seqs: [], position: after });
    await other.query("COMMIT");
    // Transactions in other databases of the server, such as those of tests that run at the same time, delay entries too.
    const late = await eventually(async () => {
      const found = await read(early.position);
      expect(found.seqs).toEqual([1, 2]);
      return found;
    });
    expect((await read(late.position)).seqs).toEqual([]);
  } finally {
    await other.end();
  }
});

test("a journal rejects with unavailable while there is no database, and works again afterwards", async () => {
  await using server = await startServer({ settings: { fsync: "off" } });
  const database = await server.createDatabase();
  await using store = await openAt(database.url, randomBytes(32));
  await using journal = store.openJournal({ onReplaced() {} });
  expect(await journal.lastSeq("a")).toBe(0);
  await server.stop("fast");
  await expect(journal.lastSeq("a")).rejects.toMatchObject({ reason: "unavailable" });
  await eventually(async () => expect(store.health().isUsable).toBe(false));
  await expect(journal.lastSeq("a")).rejects.toMatchObject({ reason: "unavailable" });
  await server.start();
  await eventually(async () => expect(await journal.lastSeq("a")).toBe(0));
});
