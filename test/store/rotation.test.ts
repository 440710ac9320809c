import { readdir } from "node:fs/promises";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { deriveKey } from "../../src/store/credential-keys.ts";
import { lockDataDir } from "../../src/store/lock.ts";
import { openStore, rotateStore, type RotateOptions, type StoreOptions } from "../../src/store/open-store.ts";
import type { RotationProgress } from "../../src/store/rotation.ts";
import type { Store } from "../../src/store/store.ts";
import { token } from "../auth/memory-tokens.ts";
import { draft } from "./builders.ts";
import { createPostgresPlace, createSqlitePlace, fillStore, type Place, readContent, record } from "./stores.ts";

const session = token({ session: "what a browser keeps" });

async function fill(options: StoreOptions): Promise<void> {
  await fillStore(options, 3);
  await using store = await openStore(options);
  await store.tokens.insert(session, record);
}

async function read(options: StoreOptions): Promise<unknown> {
  await using store = await openStore(options);
  return await readContent(store);
}

/** Rotates until the nth step, as an interrupted command does. Resolves with whether it was interrupted. */
async function rotateUntil(step: number, options: StoreOptions): Promise<boolean> {
  let reached = 0;
  const interruption = new Error("interrupted");
  const onProgress = async () => {
    reached += 1;
    if (reached === step) {
      throw interruption;
    }
  };
  return rotateStore({ ...options, waitMs: 120_000, onProgress }).then(
    () => false,
    (error: unknown) => {
      expect(error).toBe(interruption);
      return true;
    },
  );
}

/** Everything that a store encrypts, written by a service. */
async function write(store: Store, count: number): Promise<void> {
  const { rev } = store.flows.active();
  const credentials = new Map([["a", new Map([["password", `written ${count}`]])]]);
  await store.flows.commit(draft(rev, { credentials }));
  const sets = new Map([["a", new Map([["token", `written ${count}`]])]]);
  await store.flows.writeCredentials({ sets, sinceSeq: undefined, token: undefined });
  await store.settings.write([{ name: "b", json: `"written ${count}"` }], undefined);
  await store.tokens.insert(token({ session: `written ${count}` }), record);
  const { session: from = "" } = (await store.tokens.find(session.hash)) ?? {};
  expect(await store.tokens.updateSession({ hash: session.hash, from, to: `written ${count}` })).toBe(true);
}

const secrets = { credentialSecret: "new", previousCredentialSecrets: ["old"] };

describe.each<[string, () => Promise<Place>]>([
  ["SQLite", createSqlitePlace],
  ["PostgreSQL", createPostgresPlace],
])("%s", (_, createPlace) => {
  test("an interruption after each step leaves everything readable, and the next rotation continues", async () => {
    await using place = await createPlace();
    await fill({ ...place, credentialSecret: "old" });
    const content = await read({ ...place, credentialSecret: "old" });
    let step = 1;
    while (await rotateUntil(step, { ...place, ...secrets })) {
      expect(await read({ ...place, ...secrets })).toEqual(content);
      step += 1;
    }
    // Two steps before the first value, and one after each of: 3 revisions with the empty one, 2 proposals, a node, a setting, a session.
    expect(step).toBeGreaterThan(8);
    expect(await read({ ...place, credentialSecret: "new" })).toEqual(content);
    await expect(read({ ...place, credentialSecret: "old" })).rejects.toThrow("can't be decrypted");
  });

  test("services that use the store meanwhile read and write everything, and what they write is encrypted with the new secret", async () => {
    await using place = await createPlace();
    await fill({ ...place, credentialSecret: "old" });
    await using store = await openStore({ ...place, ...secrets });
    let count = 0;
    const phases = new Set<string>();
    const onProgress = async ({ phase }: RotationProgress) => {
      count += 1;
      phases.add(phase);
      await write(store, count);
    };
    const { counts, encrypted, unreadable } = await rotateStore({ ...place, ...secrets, waitMs: 120_000, onProgress });
    expect([...phases]).toEqual(["begun", "switched", "encrypting", "checking", "complete"]);
    expect({ encrypted, unreadable }).toMatchObject({ encrypted: expect.any(Number) as number, unreadable: [] });
    expect([...counts.keys()]).toEqual(["revisions", "proposals", "nodes", "settings", "sessions"]);
    const content = await readContent(store);
    expect(await read({ ...place, credentialSecret: "new" })).toEqual(content);
    const { entries } = await store.audit.list({ limit: 1_000, order: "newest" });
    const kinds = entries.map(({ kind }) => kind).filter((kind) => kind.includes("rotat"));
    expect(kinds).toEqual(["credentials_rotated", "credential_rotation_begun"]);
  });

  test("a store that does not know the new secret is waited for, and nothing is changed", async () => {
    await using place = await createPlace();
    await fill({ ...place, credentialSecret: "old" });
    using _lock = lockDataDir(place.dataDir);
    await using store = await openStore({ ...place, credentialSecret: "old" });
    store.cluster?.report({ name: "pod-1", version: "1", mode: "none", state: "off", run: undefined });
    const waiting: string[] = [];
    const rotate = (options: Partial<RotateOptions> = {}) =>
      rotateStore({ ...place, ...secrets, waitMs: 0, ...options });
    await expect
      .poll(() => rotate().catch((error: unknown) => String(error)), { timeout: 120_000 })
      .toMatch(/^Error: (the service that uses the store|pod-1) does not know the new secret, and nothing was changed/);
    await write(store, 1);
    const content = await readContent(store);
    await using other = store.cluster && (await openStore({ ...place, credentialSecret: "old" }));
    expect(other && (await readContent(other))).toEqual(other && content);
    await rotate({
      waitMs: 120_000,
      onProgress: async (progress) => {
        if (progress.phase === "waiting" && waiting.length === 0) {
          waiting.push(...progress.services);
          await store.keys.replace([deriveKey("new"), deriveKey("old")]);
        }
      },
    });
    expect(waiting).toHaveLength(1);
    expect(await readContent(store)).toEqual(content);
  });
});

test("without a secret, the new key takes the place of the one in the data directory, at each interruption", async () => {
  await using place = await createSqlitePlace();
  await fill(place);
  const content = await read(place);
  using _lock = lockDataDir(place.dataDir);
  await using service = await openStore(place);
  let step = 1;
  while (await rotateUntil(step, place)) {
    expect(await readContent(service)).toEqual(content);
    step += 1;
  }
  expect(await read(place)).toEqual(content);
  await write(service, 1);
  const names = await readdir(place.dataDir);
  expect(names.filter((name) => name.startsWith("credential.key")).toSorted()).toEqual([
    "credential.key",
    "credential.key.replaced-1",
  ]);
});

test("values that no known secret can decrypt are named, and everything else is encrypted again", async () => {
  await using place = await createSqlitePlace();
  await fill({ ...place, credentialSecret: "old" });
  await rotateStore({ ...place, ...secrets, waitMs: 0 });
  {
    await using store = await openStore({ ...place, credentialSecret: "new" });
    await store.flows.commit(draft(store.flows.active().rev));
  }
  using db = new DatabaseSync(`${place.dataDir}/flowgate.db`);
  const [row] = db.prepare("SELECT min(seq) AS seq, rev FROM revision").all() as { seq: number; rev: string }[];
  db.prepare("UPDATE revision_content SET credentials = randomblob(60) WHERE seq = ?").run(row?.seq ?? 0);
  const again = { ...place, credentialSecret: "newest", previousCredentialSecrets: ["new"] };
  expect(await rotateStore({ ...again, waitMs: 0 })).toMatchObject({ unreadable: [`revision ${row?.rev}`] });
});
