import { randomBytes } from "node:crypto";
import { readFile, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { QueryResultRow } from "pg";
import { freePort } from "../free-port.ts";
import { createDatabaseAt, type Database, query, superuserUrl } from "./database.ts";
import { type Installation, runAs, writeAs } from "./installation.ts";
import { type Postgres, startPostgres } from "./process.ts";

export type ServerOptions = {
  /** Settings of PostgreSQL, by name. Nothing is changed that makes commits less durable, unless it is here. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Whether commits wait for a standby. Until one exists, all sessions but those of the superuser wait forever. */
  readonly synchronous?: boolean;
  /** Accepts TLS too, with this certificate and key in PEM. */
  readonly tls?: { readonly cert: string; readonly key: string };
};

type StopMode = keyof typeof signals;

const signals = { smart: "SIGTERM", fast: "SIGINT", immediate: "SIGQUIT" } as const;

/** A PostgreSQL server, which ends with this process at the latest. */
export type Server = AsyncDisposable & {
  readonly port: number;
  /** Its data directory. */
  readonly data: string;
  /** What it has logged since it was started. */
  log(): string;
  /** Runs a statement as superuser, in a session of its own. Its commit does not wait for a standby. */
  query<Row extends QueryResultRow>(sql: string, values?: readonly unknown[]): Promise<Row[]>;
  /** Creates a database, which is removed with the server. */
  createDatabase(): Promise<Database>;
  /** Stops it. `smart` waits until all clients have disconnected. */
  stop(mode: StopMode): Promise<void>;
  /** Kills the postmaster with SIGKILL, and waits until all of its processes have ended. */
  kill(): Promise<void>;
  /** Starts it again, with the same data and port. */
  start(): Promise<void>;
  /** Starts a standby of it, and resolves once it has replayed everything and streams. */
  createStandby(options?: ServerOptions): Promise<Server>;
  /** Makes a standby a primary; resolves once it has logged that it accepts connections as such. */
  promote(): Promise<void>;
};

/** Small, and without parts that the tests don't need. */
const defaults = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  shared_buffers: "32MB",
  max_connections: "300",
  // No processes for reading.
  io_method: "sync",
  // Removed with the data directory, also after a SIGKILL.
  dynamic_shared_memory_type: "mmap",
  // Errors of statements reach the clients.
  log_min_messages: "log",
  wal_level: "replica",
  // Standbys start with the template, and need everything since.
  wal_keep_size: "4GB",
  wal_retrieve_retry_interval: "100ms",
};

/** Starts a server with its own copy of the template. */
export function openServer(installation: Installation, options: ServerOptions = {}): Promise<Server> {
  return open(installation, options);
}

async function open(installation: Installation, options: ServerOptions, primaryPort?: number): Promise<Server> {
  const data = join(installation.folder, `data-${randomBytes(4).toString("hex")}`);
  const remove = (): Promise<void> => rm(data, { recursive: true, force: true });
  try {
    await runAs(installation, ["cp", "-R", installation.template, data]);
    await writeFiles(installation, data, options, primaryPort);
    const { port, postgres, start } = await startOnFreePort(installation, ["-D", data, ...settingsArgs(options)]);
    return serve({ installation, data, port, start, remove }, postgres);
  } catch (error) {
    await remove();
    throw error;
  }
}

async function writeFiles(
  installation: Installation,
  data: string,
  { tls }: ServerOptions,
  primaryPort: number | undefined,
): Promise<void> {
  const write = (name: string, content: string): Promise<void> => writeAs(installation, join(data, name), content);
  if (tls !== undefined) {
    await Promise.all([write("server.crt", tls.cert), write("server.key", tls.key)]);
  }
  if (primaryPort !== undefined) {
    const address = `host=127.0.0.1 port=${primaryPort} user=postgres password=${installation.password}`;
    await write("postgresql.auto.conf", `primary_conninfo = '${address} application_name=${basename(data)}'\n`);
    await write("standby.signal", "");
  }
}

function settingsArgs({ settings, synchronous, tls }: ServerOptions): string[] {
  const all = {
    ...defaults,
    ...(synchronous && { synchronous_standby_names: "*" }),
    ...(tls && { ssl: "on" }),
    ...settings,
  };
  return Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
}

type Started = { readonly port: number; readonly postgres: Postgres; readonly start: () => Promise<Postgres> };

async function startOnFreePort(installation: Installation, args: readonly string[]): Promise<Started> {
  for (;;) {
    const port = await freePort();
    const start = async (): Promise<Postgres> => {
      const postgres = startPostgres(installation, [...args, "-p", String(port)]);
      await postgres.untilLogged(/ready to accept (?:read-only )?connections/);
      return postgres;
    };
    try {
      return { port, postgres: await start(), start };
    } catch (error) {
      if (!/Address already in use/.test(String(error))) {
        throw error;
      }
    }
  }
}

type Parts = {
  readonly installation: Installation;
  readonly data: string;
  readonly port: number;
  readonly start: () => Promise<Postgres>;
  readonly remove: () => Promise<void>;
};

function serve({ installation, data, port, start, remove }: Parts, first: Postgres): Server {
  let postgres = first;
  const address = { port, password: installation.password };
  const superuser = superuserUrl(address);
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    postgres.signal(signal);
    await postgres.ended;
  };
  const server: Server = {
    port,
    data,
    log: () => postgres.log(),
    query: (sql, values) => query(superuser, sql, values),
    createDatabase: () => createDatabaseAt(address),
    stop: (mode) => end(signals[mode]),
    async kill() {
      await end("SIGKILL");
      await removeSharedMemory(installation, data);
    },
    async start() {
      postgres = await start();
    },
    async createStandby(options = {}) {
      const standby = await open(installation, options, port);
      try {
        await untilStreaming(server, standby);
        return standby;
      } catch (error) {
        await standby[Symbol.asyncDispose]();
        throw error;
      }
    },
    async promote() {
      await server.query("SELECT pg_promote(wait => false)");
      await postgres.untilLogged(/ready to accept connections/);
    },
    async [Symbol.asyncDispose]() {
      await end(signals.immediate);
      await remove();
    },
  };
  return server;
}

/** Resolves once the standby streams, and has replayed what the primary had written by then. */
async function untilStreaming(primary: Server, standby: Server): Promise<void> {
  const streaming = `SELECT pg_current_wal_flush_lsn() AS lsn FROM pg_stat_replication
    WHERE application_name = $1 AND state = 'streaming'`;
  const { lsn } = await untilRow<{ lsn: string }>(primary, streaming, basename(standby.data));
  await untilRow(standby, "SELECT WHERE pg_last_wal_replay_lsn() >= $1", lsn);
}

async function untilRow<Row extends QueryResultRow>(server: Server, sql: string, value: string): Promise<Row> {
  for (;;) {
    const [row] = await server.query<Row>(sql, [value]);
    if (row !== undefined) {
      return row;
    }
    await delay(10);
  }
}

/** Removes the segment that the postmaster leaves behind when it is killed. Its id is in line 7 of postmaster.pid. */
async function removeSharedMemory(installation: Installation, data: string): Promise<void> {
  const [, id] = (await readFile(join(data, "postmaster.pid"), "utf8")).split("\n")[6]?.trim().split(/\s+/) ?? [];
  await runAs(installation, ["ipcrm", "-m", `${id}`]);
}
