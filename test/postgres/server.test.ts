import { spawn } from "node:child_process";
import { once } from "node:events";
import { access, readdir, readlink } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { Client } from "pg";
import { expect, test } from "vitest";
import { createAuthority, issueServer } from "../certificates.ts";
import { eventually } from "../e2e/service.ts";
import { createDatabase, getInstallation, startServer } from "./postgres.ts";

const holdServer = fileURLToPath(new URL("../fixtures/postgres/start-server.ts", import.meta.url));

/** The processes of the server with this data directory, which is where they work. */
async function processesIn(data: string): Promise<string[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const folders = await Promise.all(pids.map((pid) => readlink(`/proc/${pid}/cwd`).catch(() => "")));
  return pids.filter((_, at) => folders[at] === data);
}

test("a database is separate, and its owner is not a superuser", async () => {
  await using one = await createDatabase();
  await using other = await createDatabase();
  await one.query("CREATE TABLE t AS SELECT 1 AS n");
  expect(await one.query("SELECT n + $1::int AS n FROM t", [1])).toEqual([{ n: 2 }]);
  await expect(other.query("SELECT n FROM t")).rejects.toThrow('relation "t" does not exist');
  const sql = "SELECT rolsuper, current_database() AS name FROM pg_roles WHERE rolname = current_user";
  expect(await other.query(sql)).toEqual([{ rolsuper: false, name: other.name }]);
});

test("a password is required", async () => {
  await using database = await createDatabase();
  const url = new URL(database.url);
  url.password = "other";
  const client = new Client({ connectionString: url.href });
  await expect(client.connect()).rejects.toThrow("password authentication failed");
});

test("a database is dropped with its sessions", async () => {
  const database = await createDatabase();
  const client = new Client({ connectionString: database.url });
  await client.connect();
  const lost = new Promise((resolve) => client.on("error", resolve));
  await database[Symbol.asyncDispose]();
  expect(String(await lost)).toBe("error: terminating connection due to administrator command");
  await expect(database.query("SELECT")).rejects.toThrow(`database "${database.name}" does not exist`);
});

test("committed rows survive each way to stop a server", async () => {
  await using server = await startServer();
  const database = await server.createDatabase();
  expect(await database.query("SHOW fsync")).toEqual([{ fsync: "on" }]);
  await database.query("CREATE TABLE t (way text)");
  const ways: Record<string, () => Promise<void>> = {
    smart: () => server.stop("smart"),
    fast: () => server.stop("fast"),
    immediate: () => server.stop("immediate"),
    killed: () => server.kill(),
  };
  for (const [name, end] of Object.entries(ways)) {
    await database.query("INSERT INTO t VALUES ($1)", [name]);
    await end();
    expect(await processesIn(server.data)).toEqual([]);
    await expect(database.query("SELECT")).rejects.toThrow("ECONNREFUSED");
    await server.start();
  }
  expect(await database.query("SELECT way FROM t")).toEqual(Object.keys(ways).map((way) => ({ way })));
});

test("TLS is accepted with the certificate of the options", async () => {
  const authority = createAuthority();
  await using server = await startServer({ tls: issueServer(authority) });
  const { url } = await server.createDatabase();
  const client = new Client({ connectionString: url, ssl: { ca: authority.cert } });
  await client.connect();
  const { rows } = await client.query("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()");
  await client.end();
  expect(rows).toEqual([{ ssl: true }]);
});

test("a synchronous standby has what its primary had committed, and accepts writes after its promotion", async () => {
  await using primary = await startServer({ synchronous: true });
  const database = await primary.createDatabase();
  await using standby = await primary.createStandby();
  expect(await primary.query("SELECT sync_state FROM pg_stat_replication")).toEqual([{ sync_state: "sync" }]);

  await database.query("CREATE TABLE t AS SELECT 1 AS n");
  await primary.kill();
  const promoted = new Client({ connectionString: database.urlAt(standby.port) });
  await promoted.connect();
  await expect(promoted.query("CREATE TABLE u ()")).rejects.toThrow("read-only transaction");
  await standby.promote();
  await promoted.query("INSERT INTO t VALUES (2)");
  expect((await promoted.query("SELECT n FROM t")).rows).toEqual([{ n: 1 }, { n: 2 }]);
  await promoted.end();
});

test("a commit waits for the synchronous standby", async () => {
  await using primary = await startServer({ synchronous: true });
  const database = await primary.createDatabase();
  await using standby = await primary.createStandby();
  await standby.stop("fast");
  const created = database.query("CREATE TABLE t ()");
  const waiting = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
  await eventually(async () => expect(await primary.query(waiting)).toHaveLength(1));
  await standby.start();
  await created;
});

test("a promoted standby can have a standby", async () => {
  await using primary = await startServer();
  const database = await primary.createDatabase();
  await using first = await primary.createStandby();
  await primary.stop("fast");
  await first.promote();
  await using second = await first.createStandby();
  const client = new Client({ connectionString: database.urlAt(second.port) });
  await client.connect();
  expect((await client.query("SELECT pg_is_in_recovery()")).rows).toEqual([{ pg_is_in_recovery: true }]);
  await client.end();
});

test("a disposed server leaves neither processes nor files behind", async () => {
  const server = await startServer();
  expect(await processesIn(server.data)).not.toEqual([]);
  await server[Symbol.asyncDispose]();
  expect(await processesIn(server.data)).toEqual([]);
  await expect(access(server.data)).rejects.toThrow("ENOENT");
});

test("a server ends when the process that started it is killed", async () => {
  const child = spawn(process.execPath, [holdServer, JSON.stringify(await getInstallation())], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [chunk] = (await once(child.stdout, "data")) as [Buffer];
  const data = chunk.toString().trim();
  expect(await processesIn(data)).not.toEqual([]);
  child.kill("SIGKILL");
  await eventually(async () => expect(await processesIn(data)).toEqual([]));
});

test("an error of a start contains the log", async () => {
  const started = startServer({ settings: { wal_level: "none" } });
  await expect(started).rejects.toThrow('invalid value for parameter "wal_level": "none"');
});
