import { randomBytes, randomUUID } from "node:crypto";
import { expect, test, vi } from "vitest";
import type { ReplicaStatus } from "../../src/store/cluster.ts";
import { systemOrigin, type AuditRecord } from "../../src/store/audit-store.ts";
import type { RevisionEvent } from "../../src/store/flow-store.ts";
import type { Revision } from "../../src/store/revision.ts";
import type { Store } from "../../src/store/store.ts";
import { token } from "../auth/memory-tokens.ts";
import { query } from "../postgres/database.ts";
import { createDatabase } from "../postgres/postgres.ts";
import { openTcpProxy } from "../tcp-proxy.ts";
import { draft } from "./builders.ts";
import { openAt } from "./postgres-location.ts";

const dayMs = 86_400_000;
const entry: AuditRecord = { kind: "token_created", origin: systemOrigin };

/** Two stores on a new database; `there` is another replica for `here`. */
async function openTwo(): Promise<AsyncDisposable & { readonly here: Store; readonly there: Store; url: string }> {
  await using stack = new AsyncDisposableStack();
  const database = stack.use(await createDatabase());
  const key = randomBytes(32);
  const here = stack.use(await openAt(database.url, key));
  const there = stack.use(await openAt(database.url, key));
  const resources = stack.move();
  return { here, there, url: database.url, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

function nextEvent(store: Store): Promise<RevisionEvent> {
  return new Promise((resolve) => {
    const subscription = store.flows.onRevision((event) => {
      subscription[Symbol.dispose]();
      resolve(event);
    });
  });
}

async function commitTo(store: Store): Promise<Revision> {
  return store.flows.commit(draft(store.flows.active().rev));
}

test("a commit of another replica becomes active without a call", async () => {
  await using stores = await openTwo();
  const { here, there } = stores;
  const noticed = nextEvent(here);
  const revision = await commitTo(there);
  expect(await noticed).toEqual({ revision, isOwn: false });
  expect(here.flows.active()).toEqual(revision);
});

test("a reload by another replica is reported, its own is not", async () => {
  await using stores = await openTwo();
  const { here, there } = stores;
  const events: RevisionEvent[] = [];
  there.flows.onRevision((event) => events.push(event));
  const noticed = nextEvent(here);
  await there.flows.reload();
  expect(await noticed).toEqual({ revision: here.flows.active(), isOwn: false, isReload: true });
  const revision = await commitTo(there);
  expect(events).toEqual([{ revision, isOwn: true }]);
});

test("another replica reads that the flows are to be stopped, and that they are to run", async () => {
  await using stores = await openTwo();
  const { here, there } = stores;
  for (const isStarted of [false, true]) {
    const { promise: noticed, resolve } = Promise.withResolvers<void>();
    using _ = here.desired.onChange(resolve);
    const written = await there.desired.set(isStarted, entry);
    await noticed;
    expect(here.desired.current()).toEqual(written);
  }
});

test("the age of what it removes is measured by the clock of the database", async () => {
  await using stores = await openTwo();
  const { here, there } = stores;
  await commitTo(there);
  await commitTo(there);
  await there.audit.append([entry, entry]);
  const { rev } = there.flows.active();
  const idempotencyKey = { key: "k", fingerprint: new Uint8Array([1]) };
  const { by } = await there.flows.commit(draft(rev, { idempotencyKey }));
  await here.flows.catchUp();
  const before = await here.audit.list({ order: "oldest", limit: 100 });
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 400 * dayMs });
  try {
    expect(await here.flows.prune({ maxCount: 100, maxAgeMs: 30 * dayMs })).toBe(0);
    await here.audit.prune(30 * dayMs);
    expect(await here.audit.list({ order: "oldest", limit: 100 })).toEqual(before);
    expect(await here.flows.findRepeated(by, "k")).toMatchObject({ fingerprint: idempotencyKey.fingerprint });
  } finally {
    vi.useRealTimers();
  }
});

test("catches up with a commit of another replica", async () => {
  await using stores = await openTwo();
  const { here, there } = stores;
  const revision = await commitTo(there);
  await here.flows.catchUp();
  expect(here.flows.active()).toEqual(revision);
});

test("a token that another replica revokes is reported", async () => {
  await using stores = await openTwo();
  const { here, there } = stores;
  const [one, two] = [token(), token()];
  await there.tokens.insert(one, entry);
  await there.tokens.insert(two, entry);
  const revoked: (Uint8Array | undefined)[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  here.tokens.onRevoked((hash) => {
    revoked.push(hash);
    if (revoked.length === 2) {
      resolve();
    }
  });
  await there.tokens.remove({ hash: one.hash }, entry);
  await there.tokens.remove({ hash: two.hash }, entry);
  await promise;
  expect(revoked).toEqual([one.hash, two.hash]);
  expect(await here.tokens.find(one.hash)).toBeUndefined();
});

test("failed logins at one replica block those at another one", async () => {
  await using stores = await openTwo();
  const { here, there } = stores;
  const limit = { key: "user", max: 4, isReset: true };
  for (const store of [here, there, here, there]) {
    const reply = await store.logins.begin([limit], 60_000);
    expect(reply.kind).toBe("begun");
    await (reply.kind === "begun" ? reply.attempt.end("failed") : undefined);
  }
  expect(await here.logins.begin([limit], 60_000)).toMatchObject({ kind: "blocked" });
  expect(await there.logins.begin([limit], 60_000)).toMatchObject({ kind: "blocked" });
});

test("changes are noticed while notifications and all connections are cut", async () => {
  await using database = await createDatabase();
  const key = randomBytes(32);
  await using proxy = await openTcpProxy(Number(new URL(database.url).port));
  await using here = await openAt(database.urlAt(proxy.port), key);
  await using there = await openAt(database.url, key);
  for (let count = 0; count < 5; count += 1) {
    proxy.cut();
    const noticed = nextEvent(here);
    const revision = await commitTo(there);
    expect((await noticed).revision).toEqual(revision);
  }
});

/** Only for failures. */
const longWait = { timeout: 60_000 };

const status: ReplicaStatus = {
  name: "one",
  version: "1.2.3",
  mode: "each",
  state: "running",
  run: { rev: "r", seq: 7, outcome: "failed", message: "a type is missing", missingTypes: ["mqtt"] },
};

test("replicas know each other's status, and who has left", async () => {
  await using stores = await openTwo();
  const { here, there } = stores;
  here.cluster?.report(status);
  there.cluster?.report({ ...status, name: "two", run: undefined });
  const names = (store: Store) => store.cluster?.replicas().map(({ name, isSelf }) => ({ name, isSelf }));
  await expect
    .poll(() => names(here)?.toSorted((a, b) => a.name.localeCompare(b.name)), longWait)
    .toEqual([
      { name: "one", isSelf: true },
      { name: "two", isSelf: false },
    ]);
  await expect.poll(() => there.cluster?.replicas().find(({ name }) => name === "one"), longWait).toMatchObject(status);
  const changed = new Promise<void>((resolve) => void here.cluster?.onChange(resolve));
  there.cluster?.report({ ...status, name: "two", state: "failed" });
  await changed;
  await there[Symbol.asyncDispose]();
  await expect.poll(() => names(here), longWait).toEqual([{ name: "one", isSelf: true }]);
});

test("a replica is lost when it is silent, until one of its name is there", async () => {
  await using stores = await openTwo();
  const { here, there, url } = stores;
  const name = "silent";
  here.cluster?.report(status);
  there.cluster?.report({ ...status, name });
  await expect.poll(() => here.cluster?.replicas().map((each) => each.name), longWait).toContain(name);
  // As if it had been killed: its row remains.
  const id = randomUUID();
  await query(
    url,
    `INSERT INTO flowgate.replica SELECT '${id}', replace(status, '"${name}"', '"killed"'), seen_at - interval '1 minute', changed_at FROM flowgate.replica WHERE status LIKE '%"${name}"%'`,
  );
  await expect
    .poll(() => here.cluster?.lost(), longWait)
    .toEqual([{ name: "killed", lastMs: expect.any(Number) as number }]);
  there.cluster?.report({ ...status, name: "killed" });
  await expect.poll(() => here.cluster?.lost(), longWait).toEqual([]);
});

test("one replica at a time holds the lease, whose token increases with its holder", async () => {
  await using stores = await openTwo();
  const { here, there } = stores;
  const [one, two] = [here.cluster?.lease, there.cluster?.lease];
  const first = await one?.hold(60_000);
  expect(first).toMatchObject({ isHeld: true });
  expect(await one?.hold(60_000)).toEqual(first);
  expect(await two?.hold(60_000)).toMatchObject({ isHeld: false, forMs: expect.toSatisfy((ms) => ms > 50_000) });
  await two?.release();
  expect(await two?.hold(60_000)).toMatchObject({ isHeld: false });
  await one?.release();
  const second = await two?.hold(3_000);
  expect(second).toMatchObject({ isHeld: true });
  expect(await one?.hold(3_000)).toMatchObject({ isHeld: false });
  await expect.poll(() => one?.hold(3_000), longWait).toMatchObject({ isHeld: true });
  const third = await one?.hold(60_000);
  const tokens = [first, second, third].map((reply) => (reply?.isHeld === true ? reply.token : 0));
  expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
});

test("context is written only with the token of the lease", async () => {
  await using stores = await openTwo();
  const { here, there } = stores;
  const value = { store: "default", scope: "global", key: "n", json: "1" };
  const first = await here.cluster?.lease.hold(60_000);
  const token = first?.isHeld === true ? first.token : 0;
  expect(await here.context.write([value], token)).toBe(true);
  await here.cluster?.lease.release();
  await there.cluster?.lease.hold(60_000);
  expect(await here.context.write([{ ...value, json: "2" }], token)).toBe(false);
  expect(await there.context.read()).toEqual([value]);
});

test("what nodes store is written only with the token of the lease, and read by the other replica", async () => {
  await using stores = await openTwo();
  const { here, there } = stores;
  const write = (store: Store, value: string, token: number | undefined) =>
    store.flows.writeCredentials({ sets: new Map([["a", new Map([["token", value]])]]), sinceSeq: undefined, token });
  await commitTo(here);
  const first = await here.cluster?.lease.hold(60_000);
  const token = first?.isHeld === true ? first.token : 0;
  expect(await write(here, "t2", token)).toEqual(new Map([["a", "written"]]));
  expect(await here.settings.write([{ name: "s", json: "1" }], token)).toBe("written");
  const stored = new Map([["a", new Map([["token", "t2"]])]]);
  await expect.poll(() => there.flows.active().credentials, longWait).toEqual(stored);
  await expect.poll(() => there.settings.current(), longWait).toEqual(new Map([["s", "1"]]));
  await here.cluster?.lease.release();
  await there.cluster?.lease.hold(60_000);
  expect(await write(here, "t3", token)).toBeUndefined();
  expect(await here.settings.write([{ name: "s", json: "2" }], token)).toBe("fenced");
  expect(await there.settings.read()).toEqual(new Map([["s", "1"]]));
  // A commit that does not know of the write does not bring the token of before back.
  const earlier = new Map([["a", new Map([["token", "t1"]])]]);
  await there.flows.commit(draft(there.flows.active().rev, { credentials: earlier }));
  await here.flows.catchUp();
  expect(here.flows.active().credentials).toEqual(stored);
  expect(there.flows.active().credentials).toEqual(stored);
});

test.each(["nobody", "this replica"])(
  "a promoted standby, for which %s had the lease, may lack a newer lease",
  async (holder) => {
    await using stores = await openTwo();
    const { here, there, url } = stores;
    const [one, two] = [here.cluster?.lease, there.cluster?.lease];
    const first = await one?.hold(60_000);
    await one?.release();
    // As on a timeline before.
    const id = holder === "nobody" ? "" : here.cluster?.id;
    await query(url, "UPDATE flowgate.lease SET token = 5, holder = $1, ends_at = now()", [id]);
    expect(await one?.hold(1_000)).toMatchObject({ isHeld: false });
    expect(await two?.hold(1_000)).toMatchObject({ isHeld: false });
    await expect.poll(() => one?.hold(1_000), longWait).toEqual(first);
  },
);

test("revocations are noticed although a revision can't be read", async () => {
  await using stores = await openTwo();
  const { here, there, url } = stores;
  const { hash } = token();
  await there.tokens.insert({ ...token(), hash }, entry);
  await query(
    url,
    `WITH damaged AS (
       INSERT INTO flowgate.revision (seq, rev, parent, committed_at_ms, deployment_type, cause, node_count, size_bytes)
       VALUES (2, 'damaged', $1, 0, 'full', 'deployment', 0, 0))
     INSERT INTO flowgate.revision_content VALUES (2, '', '')`,
    [here.flows.active().rev],
  );
  await expect(here.flows.catchUp()).rejects.toThrow("");
  const noticed = new Promise((resolve) => void here.tokens.onRevoked(resolve));
  await there.tokens.remove({ hash }, entry);
  expect(await noticed).toEqual(hash);
});
