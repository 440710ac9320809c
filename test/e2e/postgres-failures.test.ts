import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { describe, expect, test } from "vitest";
import { FlowgateError } from "@flowgate/flows/errors";
import type { Revision } from "../../src/store/revision.ts";
import type { Store } from "../../src/store/store.ts";
import { toFlowgateError } from "../../src/store/postgres/errors.ts";
import { freePort } from "../free-port.ts";
import { query } from "../postgres/database.ts";
import { createDatabase, startServer } from "../postgres/postgres.ts";
import { openTcpProxy } from "../tcp-proxy.ts";
import { draft } from "../store/builders.ts";
import { openAt } from "../store/postgres-location.ts";

const key = randomBytes(32);

/** Only for failures. */
const longWait = { timeout: 120_000, interval: 20 };

async function commitTo(store: Store): Promise<Revision> {
  return store.flows.commit(draft(store.flows.active().rev));
}

/** Commits again and again, until it is stopped. */
function keepCommitting(store: Store) {
  const acknowledged: string[] = [];
  const errors: unknown[] = [];
  const ending = new AbortController();
  const done = (async () => {
    while (!ending.signal.aborted) {
      try {
        acknowledged.push((await commitTo(store)).rev);
        // Lets another replica commit, which would always come too late otherwise.
        await delay(Math.random() * 20);
      } catch (error) {
        if (!(error instanceof FlowgateError) || error.reason !== "version_mismatch") {
          errors.push(error);
          await delay(10);
        }
      }
    }
  })();
  return {
    acknowledged,
    errors,
    async untilCommitted(more: number): Promise<void> {
      const { length } = acknowledged;
      await expect.poll(() => acknowledged.length, longWait).toBeGreaterThanOrEqual(length + more);
    },
    async stop(): Promise<void> {
      ending.abort();
      await done;
    },
  };
}

async function stop(writers: readonly ReturnType<typeof keepCommitting>[]): Promise<void> {
  await Promise.all(writers.map((writer) => writer.stop()));
}

/** All revisions, oldest first. */
async function readHistory(store: Store): Promise<string[]> {
  const { revisions } = await store.flows.list({ limit: 100_000 });
  return revisions.map(({ rev }) => rev).toReversed();
}

function expectUnavailable(errors: readonly unknown[]): void {
  for (const error of errors) {
    expect(error).toBeInstanceOf(FlowgateError);
    const { reason, retryAfterMs } = error as FlowgateError;
    expect({ reason, retryAfterMs }).toEqual({ reason: "unavailable", retryAfterMs: 1000 });
  }
}

describe("a server that stops and starts loses no acknowledged commit", () => {
  test.each(["stop", "kill"] as const)("%s", async (how) => {
    await using server = await startServer();
    const database = await server.createDatabase();
    await using here = await openAt(database.url, key);
    await using there = await openAt(database.url, key);
    const writers = [keepCommitting(here), keepCommitting(there)];
    await Promise.all(writers.map((writer) => writer.untilCommitted(10)));

    if (how === "kill") {
      await server.kill();
    } else {
      const stopped = server.stop("smart");
      // It waits for the connections, which are still used.
      await Promise.all(writers.map((writer) => writer.untilCommitted(10)));
      await server.stop("fast");
      await stopped;
    }
    await expect.poll(() => here.health(), longWait).toMatchObject({ isUsable: false });
    const { rev } = here.flows.active();
    expect(here.flows.active().flows.nodes).toHaveLength(1);
    expect((await here.flows.find(rev))?.rev).toBe(rev);
    expectUnavailable([await here.flows.list({ limit: 1 }).catch((error: unknown) => error)]);

    await server.start();
    await expect.poll(() => here.health(), longWait).toEqual({ isUsable: true });
    await Promise.all(writers.map((writer) => writer.untilCommitted(10)));
    await stop(writers);
    const history = await readHistory(here);
    const acknowledged = writers.flatMap((writer) => writer.acknowledged);
    expect(new Set(acknowledged).difference(new Set(history))).toEqual(new Set());
    expectUnavailable(writers.flatMap(({ errors }) => errors));
    await expect.poll(() => there.flows.active().rev, longWait).toBe(history.at(-1));
    expect(await here.audit.verify()).toMatchObject({ problem: undefined });
  });
});

describe("a promoted standby", () => {
  test("has all commits, if replication is synchronous, and accepts new ones", async () => {
    await using primary = await startServer({ synchronous: true });
    const database = await primary.createDatabase();
    await using standby = await primary.createStandby();
    const url = database.urlAt(primary.port, standby.port);
    await using here = await openAt(url, key);
    await using there = await openAt(url, key);
    const writers = [keepCommitting(here), keepCommitting(there)];
    await Promise.all(writers.map((writer) => writer.untilCommitted(10)));
    await primary.kill();
    await standby.promote();
    await Promise.all(writers.map((writer) => writer.untilCommitted(5)));
    await stop(writers);
    const acknowledged = writers.flatMap((writer) => writer.acknowledged);
    expect(new Set(acknowledged).difference(new Set(await readHistory(here)))).toEqual(new Set());
    expectUnavailable(writers.flatMap(({ errors }) => errors));
    expect(await here.audit.verify()).toMatchObject({ problem: undefined });
  });

  test("has each acknowledged commit, also if the first connection no longer waits for it", async () => {
    await using primary = await startServer({ synchronous: true });
    const database = await primary.createDatabase();
    await using standby = await primary.createStandby();
    await using store = await openAt(database.url, key);
    await standby.stop("fast");
    const committed = commitTo(store);
    const waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = $1";
    await expect.poll(() => primary.query(waiting, ["COMMIT"]), longWait).toHaveLength(1);
    const [first] = await primary.query<{ pid: number }>(waiting, ["COMMIT"]);
    await primary.query("SELECT pg_terminate_backend($1)", [first?.pid]);
    // The commit can be read now, but the standby does not have it.
    const other = `${waiting} AND pid <> $2`;
    await expect.poll(() => primary.query(other, ["COMMIT", first?.pid]), longWait).toHaveLength(1);
    await standby.start();
    const { rev } = await committed;
    const [row] = await query(database.urlAt(standby.port), "SELECT rev FROM flowgate.revision WHERE rev = $1", [rev]);
    expect(row).toEqual({ rev });
  });

  test("that lacks a commit makes the revision before it active again, as a newer one", async () => {
    await using primary = await startServer();
    const database = await primary.createDatabase();
    const standby = await primary.createStandby();
    await using proxy = await openTcpProxy(primary.port);
    const url = database.urlAt(proxy.port);
    await using here = await openAt(url, key);
    await using there = await openAt(url, key);
    const kept = await commitTo(here);
    const caughtUp = "SELECT 1 FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()";
    await expect.poll(() => primary.query(caughtUp), longWait).toHaveLength(1);
    await standby.stop("fast");
    await expect.poll(() => there.flows.active().rev, longWait).toBe(kept.rev);
    const lost = await commitTo(there);
    await expect.poll(() => here.flows.active().rev, longWait).toBe(lost.rev);

    await primary.kill();
    await standby.start();
    await standby.promote();
    proxy.sendTo(standby.port);
    await expect.poll(() => here.flows.active().restoredRev, longWait).toBe(kept.rev);
    await expect.poll(() => there.flows.active().rev, longWait).toBe(here.flows.active().rev);
    const active = here.flows.active();
    expect(active).toMatchObject({ parent: kept.rev, cause: "restore" });
    expect(active.seq).toBeGreaterThan(lost.seq);
    expect(active.credentials).toEqual(kept.credentials);
    expect((await here.flows.findEntry(active.rev))?.message).toContain(lost.rev);
    await commitTo(there);
    await standby[Symbol.asyncDispose]();
  });
});

test("a server that no longer responds is left for one that does", async () => {
  await using database = await createDatabase();
  await using first = await openTcpProxy(database.port);
  await using second = await openTcpProxy(database.port);
  await second.close();
  await using store = await openAt(database.urlAt(first.port, second.port), key);
  await commitTo(store);
  await second.open();
  first.stall();
  await expect.poll(() => commitTo(store).catch(() => undefined), longWait).toBeDefined();
});

test("a process that stops within a transaction blocks others only for a moment", async () => {
  await using database = await createDatabase();
  await using proxy = await openTcpProxy(database.port);
  await using here = await openAt(database.url, key);
  await using there = await openAt(database.urlAt(proxy.port), key);
  const writer = keepCommitting(there);
  await writer.untilCommitted(10);
  proxy.stall();
  await expect.poll(() => commitTo(here).catch(() => undefined), longWait).toBeDefined();
  proxy.resume();
  await writer.untilCommitted(1);
  await writer.stop();
  expectUnavailable(writer.errors);
});

test("a commit in doubt is looked up, and is never made twice", async () => {
  await using database = await createDatabase();
  await using proxy = await openTcpProxy(database.port);
  await using store = await openAt(database.urlAt(proxy.port), key);
  const writer = keepCommitting(store);
  for (let count = 0; count < 40; count += 1) {
    await writer.untilCommitted(1);
    proxy.cut();
  }
  await writer.stop();
  const history = await readHistory(store);
  expect(new Set(writer.acknowledged).difference(new Set(history))).toEqual(new Set());
  // The others were made by commits that were answered by an error that says so.
  const doubtful = writer.errors.filter((error) => String(error).includes("outcome is unknown"));
  expect(history.length - 1 - writer.acknowledged.length).toBeLessThanOrEqual(doubtful.length);
  expectUnavailable(writer.errors);
});

// Again where the machine was too busy to be faster than the driver.
test("operations in progress are repeated at another server when theirs does not respond", { retry: 2 }, async () => {
  await using database = await createDatabase();
  await using stalled = await openTcpProxy(database.port);
  await using next = await openTcpProxy(database.port);
  await next.close();
  await using store = await openAt(database.urlAt(stalled.port, next.port), key);
  await commitTo(store);
  stalled.stall();
  await next.open();
  const replies: unknown[] = [];
  void store.cluster?.lease.hold(10_000).then((reply) => replies.push(reply));
  // The driver's own time limit is 15 s.
  await expect.poll(() => replies, { timeout: 14_500 }).toMatchObject([{ isHeld: true }]);
  await commitTo(store);
});

test("closes while its server does not respond", async () => {
  await using database = await createDatabase();
  await using proxy = await openTcpProxy(database.port);
  const store = await openAt(database.urlAt(proxy.port), key);
  const run = { name: "one", version: "1.2.3", mode: "each", state: "running", run: undefined } as const;
  store.cluster?.report(run);
  await expect.poll(() => store.cluster?.replicas(), longWait).toHaveLength(1);
  proxy.stall();
  await expect.poll(() => store.health().isUsable, longWait).toBe(false);
  await store[Symbol.asyncDispose]();
  expect(store.health()).toEqual({ isUsable: false, message: "the store is closed" });
});

test("more calls than there are connections are no failure of the database, and delay neither commits nor the lease", async () => {
  await using database = await createDatabase();
  await using store = await openAt(database.url, key);
  const changes: unknown[] = [];
  store.onHealthChange(() => changes.push(store.health()));
  const blocker = new Client({ connectionString: database.url });
  await blocker.connect();
  await blocker.query("BEGIN; LOCK TABLE flowgate.login_attempt");
  const limits = [{ key: "user", max: 5, isReset: true }];
  const logins = Array.from({ length: 100 }, () => store.logins.begin(limits, 60_000).catch((error: unknown) => error));
  await commitTo(store);
  expect(await store.cluster?.lease.hold(10_000)).toMatchObject({ isHeld: true });
  expectUnavailable(await Promise.all(logins));
  expect(changes).toEqual([]);
  await blocker.end();
});

test("concurrent commits are settled, whatever the default isolation level of the role is", async () => {
  await using database = await createDatabase();
  await database.query(`ALTER DATABASE ${database.name} SET default_transaction_isolation = 'serializable'`);
  await using here = await openAt(database.url, key);
  await using there = await openAt(database.url, key);
  const { rev } = here.flows.active();
  const commits = Array.from({ length: 20 }, (_, count) => (count % 2 === 0 ? here : there).flows.commit(draft(rev)));
  const outcomes = await Promise.all(
    commits.map((each) =>
      each.then(
        () => "committed",
        (error: unknown) => error,
      ),
    ),
  );
  expect(outcomes.filter((outcome) => outcome === "committed")).toHaveLength(1);
  for (const outcome of outcomes.filter((each) => each !== "committed")) {
    expect(outcome).toMatchObject({ reason: "version_mismatch" });
  }
});

test("a host with several addresses, none of which accepts connections, is not available", async () => {
  const socket = connect({
    port: await freePort(),
    host: "several.example",
    autoSelectFamily: true,
    lookup: (_host, _options, callback) =>
      callback(null, [
        { address: "127.0.0.1", family: 4 },
        { address: "127.0.0.2", family: 4 },
      ]),
  });
  const [error] = await once(socket, "error");
  expect(toFlowgateError(error)).toMatchObject({ reason: "unavailable" });
});
