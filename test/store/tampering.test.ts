import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { systemOrigin } from "../../src/store/audit-store.ts";
import { openStore } from "../../src/store/open-store.ts";
import type { Store } from "../../src/store/store.ts";
import { query } from "../postgres/database.ts";
import { draft } from "./builders.ts";
import { createPostgresPlace, createSqlitePlace, type Place } from "./stores.ts";

const sqlite = {
  create: createSqlitePlace,
  execute: async ({ dataDir }: Place, sql: string) => {
    using db = new DatabaseSync(join(dataDir, "flowgate.db"));
    db.exec(sql);
  },
};
const postgres = {
  create: createPostgresPlace,
  execute: async ({ store }: Place, sql: string) => {
    for (const statement of sql.split("; ")) {
      await query(store, statement.replaceAll(/\b(FROM|UPDATE|INTO) /g, "$1 flowgate."));
    }
  },
};

const origin = {
  by: "ada",
  token: { id: "4fGx0aQz", name: "ci" },
  address: "10.0.0.1",
  protocol: "rest",
  requestId: "r-1",
};

/** Commits three revisions, and returns their revs. */
async function commitThree(store: Store): Promise<string[]> {
  const revs: string[] = [];
  for (let count = 0; count < 3; count += 1) {
    revs.push((await store.flows.commit(draft(store.flows.active().rev, { ...origin, message: "first" }))).rev);
  }
  return revs;
}

const columns = "parent, committed_at_ms, deployed_by, deployment_type, cause, node_count, size_bytes";

const changes: readonly (readonly [name: string, sql: string, problem: string])[] = [
  ["a changed user", "UPDATE revision SET deployed_by = 'eve' WHERE seq = 3", "its user is not as entry 2 records"],
  ["a removed user", "UPDATE revision SET deployed_by = NULL WHERE seq = 3", "its user is not as entry 2 records"],
  [
    "a changed token",
    "UPDATE revision SET token_id = 'x', token_name = 'y' WHERE seq = 3",
    "its token and name of the token are not as entry 2 records",
  ],
  [
    "a changed address",
    "UPDATE revision SET client_address = '10.0.0.2', protocol = 'grpc', request_id = 'r' WHERE seq = 3",
    "its client address, protocol and request id are not as entry 2 records",
  ],
  [
    "a changed cause",
    "UPDATE revision SET cause = 'undo' WHERE seq = 3",
    "its type or cause is not as entry 2 records",
  ],
  [
    "a changed time",
    "UPDATE revision SET committed_at_ms = committed_at_ms - 1 WHERE seq = 3",
    "its time, parent or another field is not as entry 2 records",
  ],
  [
    "other flows",
    "UPDATE revision_content SET flows = (SELECT flows FROM revision_content WHERE seq = 1) WHERE seq = 3",
    "its flows are not as entry 2 records",
  ],
];

describe.each([
  ["SQLite", sqlite],
  ["PostgreSQL", postgres],
])("%s", (_, { create, execute }) => {
  test.each(changes)("the verification detects %s", async (_name, sql, problem) => {
    await using place = await create();
    await using store = await openStore(options(place));
    const [, rev] = await commitThree(store);
    expect(await store.audit.verify()).toMatchObject({ entries: 3, revisions: 3, problem: undefined });
    await execute(place, sql);
    expect(await store.audit.verify()).toMatchObject({ problem: `revision ${rev} was changed: ${problem}` });
  });

  test("the verification detects a removed and an inserted revision", async () => {
    await using place = await create();
    await using store = await openStore(options(place));
    const [, rev] = await commitThree(store);
    await execute(place, "DELETE FROM revision_content WHERE seq = 3; DELETE FROM revision WHERE seq = 3");
    expect((await store.audit.verify()).problem).toBe(
      `revision ${rev}, which entry 2 records, was removed, and not by the retention`,
    );

    await using other = await create();
    await using inserted = await openStore(options(other));
    await commitThree(inserted);
    await execute(
      other,
      `INSERT INTO revision (seq, rev, ${columns}) SELECT 5, 'forged', 'another', 1, 'ada', deployment_type, cause, node_count, size_bytes FROM revision WHERE seq = 4; ` +
        "INSERT INTO revision_content (seq, flows, credentials) SELECT 5, flows, credentials FROM revision_content WHERE seq = 4",
    );
    expect((await inserted.audit.verify()).problem).toBe("revision forged has no entry, although an earlier one has");
  });

  test("what the service changes and removes itself is no inconsistency", async () => {
    await using place = await create();
    await using store = await openStore(options(place));
    const [first = "", second = "", third = ""] = await commitThree(store);
    const entry = { kind: "revision_updated", origin, subject: second } as const;
    await store.flows.update(second, { message: "another \u0000 one", pinned: true }, entry);
    await store.flows.update(third, { outcome: { state: "failed", message: "m", missingTypes: ["t"] } });
    await store.audit.append([{ kind: "deployment", origin, subject: third, detail: "reload" }]);
    await store.flows.commit(draft(third, { ...origin, by: "\u0000 \ud800" }));
    expect(await store.audit.verify()).toMatchObject({ revisions: 4, problem: undefined });
    expect(await store.flows.prune({ maxCount: 2, maxAgeMs: undefined })).toBe(2);
    expect(await store.audit.verify()).toMatchObject({ revisions: 3, problem: undefined });
    const { entries } = await store.audit.list({ limit: 1, order: "newest" });
    expect(entries).toMatchObject([
      { kind: "revisions_pruned", origin: systemOrigin, detail: expect.stringContaining(first), count: 2 },
    ]);
    // The entries of removed revisions may be removed too.
    await store.audit.prune(-60_000);
    expect(await store.audit.verify()).toMatchObject({ revisions: 0, problem: undefined });
  });

  test("revisions and entries of an older version are not compared", async () => {
    await using place = await create();
    await using store = await openStore(options(place));
    const [rev = ""] = await commitThree(store);
    await execute(place, "UPDATE revision SET deployed_by = 'eve' WHERE seq = 2");
    await store.audit.append([{ kind: "deployment", origin, subject: rev, detail: "reload" }]);
    expect((await store.audit.verify()).problem).toContain("its user");
    // As if the log began with the entries of an older version.
    await execute(
      place,
      "DELETE FROM audit; UPDATE audit_head SET seq = 0, hash = ''; DELETE FROM revision WHERE seq = 1",
    );
    await store.audit.append([
      { kind: "deployment", origin, subject: "removed by an older version", detail: "full" },
      { kind: "deployment", origin, subject: rev, detail: "full" },
    ]);
    expect(await store.audit.verify()).toMatchObject({ entries: 2, revisions: 0, problem: undefined });
  });

  test("revisions and entries name the token of the request", async () => {
    await using place = await create();
    await using store = await openStore(options(place));
    const [rev = ""] = await commitThree(store);
    const login = { ...origin, token: { id: "a-login", name: undefined } };
    const other = await store.flows.commit(draft(store.flows.active().rev, login));
    await store.flows.update(rev, { pinned: true }, { kind: "revision_updated", origin, subject: rev });
    expect((await store.flows.findEntry(rev))?.token).toEqual(origin.token);
    expect((await store.flows.find(other.rev))?.token).toEqual(login.token);
    const { entries } = await store.audit.list({ limit: 10, order: "oldest" });
    expect(entries.map((entry) => entry.origin.token)).toEqual([
      origin.token,
      origin.token,
      origin.token,
      login.token,
      origin.token,
    ]);
  });

  test("no more revisions can be pinned than the limit, also at once", async () => {
    await using place = await create();
    await using store = await openStore(options(place));
    const revs = await commitThree(store);
    const pin = (rev: string, pinned = true) =>
      store.flows.update(rev, { pinned }, { kind: "revision_updated", origin, subject: rev }, 2);
    const outcomes = await Promise.allSettled(revs.map((rev) => pin(rev)));
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "fulfilled", "rejected"]);
    expect(outcomes.find(({ status }) => status === "rejected")).toMatchObject({
      reason: {
        name: "FlowgateError",
        reason: "limit_exceeded",
        message:
          "pinned: limit of pinned revisions reached (2, history.maxRevisions): unpin one first, or raise the option",
      },
    });
    expect((await store.audit.list({ limit: 10, order: "newest" })).entries).toHaveLength(5);
    expect(store.health().isUsable).toBe(true);
    const pinned = (await store.flows.list({ limit: 10, filter: { pinned: true } })).revisions.map(({ rev }) => rev);
    // One that is pinned already is not another one.
    await pin(pinned[0] ?? "");
    await pin(pinned[0] ?? "", false);
    await Promise.all(revs.filter((rev) => !pinned.includes(rev)).map((rev) => pin(rev)));
  });
});

function options({ store, dataDir }: Place) {
  return { store, dataDir, credentialSecret: undefined };
}
