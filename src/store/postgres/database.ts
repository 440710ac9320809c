import { setTimeout as delay } from "node:timers/promises";
import {
  type Client as PgClient,
  type ClientConfig,
  Client,
  Pool,
  type PoolClient,
  type QueryConfig,
  TypeOverrides,
  types,
} from "pg";
import { createListeners } from "../../listeners.ts";
import type { StoreHealth } from "../store.ts";
import type { Location } from "./location.ts";
import { classify, describe, isTimeout, NotPrimary, unavailable } from "./postgres-error.ts";
import { createSockets, type Sockets } from "./sockets.ts";

/** Runs one statement, and returns its rows. `withinMs` limits how long it waits for the server. */
export type Query = <Row extends object>(
  text: string,
  values?: readonly unknown[],
  withinMs?: number,
) => Promise<Row[]>;

export interface Database extends AsyncDisposable {
  /** Reads. Repeated once if the connection fails. */
  query: Query;
  /**
   * Runs `work` in a transaction, which is rolled back if it rejects. Begun again once if the connection fails before the
   * commit. Rejects with `InDoubt` if it fails during the commit.
   */
  transaction<T>(work: (query: Query, primary: Primary) => Promise<T>): Promise<T>;
  /**
   * Opens a connection that is not part of the pool, which the caller ends. It is also closed when its server is found not to
   * respond, and at the latest when the database is disposed.
   */
  connect(): Promise<PgClient>;
  health(): StoreHealth;
  /** Calls the listener after each change of `health`. */
  onHealthChange(listener: () => void): Disposable;
}

/** The server that accepts writes. */
type Primary = {
  readonly pool: Pool;
  /** Those of the pool, and of other connections. */
  readonly sockets: Sockets;
  readonly config: ClientConfig;
  /** The statements that begin a transaction. */
  readonly begin: string;
  /** The id of its timeline, which increases when a standby is promoted; 0 if it is unknown. */
  readonly timeline: number;
};

/** What is known about a primary before it is used. */
type Probed = Omit<Primary, "pool" | "sockets">;

/** The connection has failed during a commit, which may have taken effect. */
export class InDoubt extends Error {}

const limits = {
  connectMs: 2_000,
  /** Limits statements on the server. */
  statementMs: 10_000,
  lockMs: 5_000,
  /** So that a process that is stopped in a transaction does not block the others. */
  idleInTransactionMs: 2_000,
  /** Limits queries here, for servers that no longer respond. */
  queryMs: 15_000,
  searchMs: 200,
  probeMs: 3_000,
  /** How long disposing waits for the server to close connections. */
  endMs: 1_000,
  /** How long a query waits for the primary to be found. */
  patienceMs: 500,
} as const;

// With SET LOCAL, since connection poolers such as pgbouncer share sessions between clients. One message to the server.
// Isolation levels above this one, which can be the default of a role, would reject concurrent commits.
const begin = `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = ${limits.statementMs}; SET LOCAL lock_timeout = ${limits.lockMs}; SET LOCAL idle_in_transaction_session_timeout = ${limits.idleInTransactionMs}`;

/** Replaces the setting `off`, with which a crash of the server loses commits that it has reported. */
const durable = "; SET LOCAL synchronous_commit = on";

const parsers = new TypeOverrides();
// All integers fit into a number: they count things or milliseconds.
parsers.setTypeParser(types.builtins.INT8, Number);
const parseBytes = types.getTypeParser(types.builtins.BYTEA) as (text: string) => Buffer;
parsers.setTypeParser(types.builtins.BYTEA, (text): Uint8Array => {
  const { buffer, byteOffset, byteLength } = parseBytes(text);
  return new Uint8Array(buffer, byteOffset, byteLength);
});

/** Connects to the primary among the servers. Rejects if there is none. */
export async function openDatabase({ servers, poolSize }: Location): Promise<Database> {
  const listeners = createListeners<void>();
  let health: StoreHealth = { isUsable: true };
  let primary: Primary | undefined;
  let highestTimeline = 0;
  let search: Promise<void> | undefined;
  let isClosed = false;

  function setHealth(next: StoreHealth): void {
    if (health.isUsable !== next.isUsable || (!next.isUsable && !health.isUsable && next.message !== health.message)) {
      health = next;
      listeners.notify();
    }
  }

  function use(found: Probed): void {
    highestTimeline = Math.max(highestTimeline, found.timeline);
    const sockets = createSockets();
    const pool = new Pool({
      ...found.config,
      max: poolSize,
      connectionTimeoutMillis: limits.connectMs,
      query_timeout: limits.queryMs,
      keepAlive: true,
      allowExitOnIdle: true,
      types: parsers,
      stream: () => sockets.create(),
    });
    const used = { ...found, pool, sockets };
    // An idle connection was closed by the server. Without a listener, the process would end.
    pool.on("error", (error) => recordFailure(error, used));
    primary = used;
    setHealth({ isUsable: true });
  }

  /** Probes the server until it is a primary, or the search has ended. */
  async function searchAt(
    config: ClientConfig,
    { signal, onFailure }: { readonly signal: AbortSignal; readonly onFailure: (error: unknown) => void },
  ): Promise<Probed | undefined> {
    for (;;) {
      if (signal.aborted || isClosed) {
        return undefined;
      }
      try {
        return await probe(config, highestTimeline);
      } catch (error) {
        onFailure(error);
      }
      await delay(limits.searchMs, undefined, { ref: false });
    }
  }

  /** Searches all servers at the same time: one that does not respond must not delay the others. */
  async function searchAll(): Promise<void> {
    const ending = new AbortController();
    const failures = new Map<ClientConfig, unknown>();
    const searches = servers.map((config) =>
      searchAt(config, {
        signal: ending.signal,
        onFailure(error) {
          failures.set(config, error);
          // Until all have been tried, it is not known which failure matters.
          if (!ending.signal.aborted && !isClosed && failures.size === servers.length) {
            setHealth({ isUsable: false, message: describe(new AggregateError(failures.values())) });
          }
        },
      }),
    );
    const found = await Promise.race(searches);
    ending.abort();
    if (found !== undefined && !isClosed) {
      use(found);
    }
  }

  function startSearch(): Promise<void> {
    search ??= searchAll().finally(() => (search = undefined));
    return search;
  }

  function leave(left: Primary, isResponsive: boolean): void {
    primary = undefined;
    void startSearch();
    // Waits for the connections in use, which fail by themselves.
    left.pool.end().catch(() => {});
    if (!isResponsive) {
      // They would fail much later.
      left.sockets.destroy();
    }
  }

  /** Records that a connection to `server` has failed, and searches for the primary. */
  function recordFailure(error: unknown, server: Primary | undefined): void {
    const failure = classify(error);
    // Connections to a server that was left fail later than the first one.
    if (isClosed || server === undefined || server !== primary || failure === "other" || failure === "busy") {
      return;
    }
    setHealth({ isUsable: false, message: describe(error) });
    if (failure === "connection") {
      leave(server, !isTimeout(error));
    }
  }

  async function current(): Promise<Primary> {
    if (isClosed) {
      throw unavailable("the store is closed");
    }
    if (primary === undefined) {
      const timeout = Promise.withResolvers<void>();
      const timer = setTimeout(timeout.resolve, limits.patienceMs);
      await Promise.race([startSearch(), timeout.promise]);
      clearTimeout(timer);
    }
    if (primary === undefined) {
      throw unavailable("the database is not available: try again");
    }
    return primary;
  }

  async function runOnce<T>(operation: (primary: Primary) => Promise<T>): Promise<T> {
    const used = await current();
    try {
      return await operation(used);
    } catch (error) {
      recordFailure(error instanceof InDoubt ? error.cause : error, used);
      throw error;
    }
  }

  /** Runs the operation, and once more with a new connection if the first one fails. */
  async function repeatOnce<T>(operation: (primary: Primary) => Promise<T>): Promise<T> {
    try {
      return await runOnce(operation);
    } catch (error) {
      if (classify(error) !== "connection") {
        throw error;
      }
    }
    return runOnce(operation);
  }

  async function runTransaction<T>(primary: Primary, work: (query: Query, primary: Primary) => Promise<T>): Promise<T> {
    const client = await primary.pool.connect();
    let failed: Error | undefined;
    const onError = (error: Error): void => void (failed = error);
    client.on("error", onError);
    try {
      await client.query(primary.begin);
      const result = await work(queryOf(client), primary);
      await commit(client);
      setHealth({ isUsable: true });
      return result;
    } catch (error) {
      failed ??= error instanceof Error ? error : new Error(String(error));
      if (classify(error) === "other" && !(error instanceof InDoubt)) {
        failed = await client.query("ROLLBACK").then(
          () => undefined,
          (rollback: Error) => rollback,
        );
      }
      throw error;
    } finally {
      client.off("error", onError);
      // A connection that has failed is not used again.
      client.release(failed);
    }
  }

  try {
    // The first one that replies: another may not respond at all.
    use(await Promise.any(servers.map((config) => probe(config, highestTimeline))));
  } catch (cause) {
    throw new Error(`the store can't be opened: ${describe(cause)}`, { cause });
  }

  return {
    query: (text, values, withinMs) => repeatOnce(({ pool }) => queryOf(pool)(text, values, withinMs)),
    transaction: (work) => repeatOnce((primary) => runTransaction(primary, work)),
    async connect() {
      const { config, sockets } = await current();
      return connectTo(config, sockets);
    },
    health: () => health,
    onHealthChange: (listener) => listeners.add(listener),
    async [Symbol.asyncDispose]() {
      isClosed = true;
      const last = primary;
      primary = undefined;
      setHealth({ isUsable: false, message: "the store is closed" });
      if (last !== undefined) {
        await Promise.race([last.pool.end(), delay(limits.endMs, undefined, { ref: false })]);
        last.sockets.destroy();
      }
    },
  };
}

/** Converts a client, or a pool, to the function that runs one statement. */
export function queryOf(client: PgClient | Pool | PoolClient): Query {
  return async (text, values = [], withinMs = limits.queryMs) => {
    const config: QueryConfig & { readonly query_timeout: number } = {
      text,
      values: [...values],
      query_timeout: withinMs,
    };
    const { rows } = await client.query<never>(config);
    return rows;
  };
}

async function commit(client: PoolClient): Promise<void> {
  try {
    await client.query("COMMIT");
  } catch (cause) {
    throw classify(cause) === "connection"
      ? new InDoubt("the connection has failed during a commit", { cause })
      : (cause as Error);
  }
}

async function connectTo(config: ClientConfig, sockets: Sockets): Promise<PgClient> {
  const client = new Client({
    ...config,
    connectionTimeoutMillis: limits.connectMs,
    query_timeout: limits.queryMs,
    keepAlive: true,
    types: parsers,
    stream: () => sockets.create(),
  });
  // Reported by the query that fails, or to listeners that are added later.
  client.on("error", () => {});
  try {
    await client.connect();
  } catch (error) {
    void client.end().catch(() => {});
    throw error;
  }
  return client;
}

/** Resolves if the server is a primary, and not one that was replaced. */
async function probe(config: ClientConfig, minTimeline: number): Promise<Probed> {
  const sockets = createSockets();
  setTimeout(() => sockets.destroy(), limits.probeMs).unref();
  const client = await connectTo(config, sockets);
  try {
    const { rows } = await client.query<{ writable: boolean; durable: boolean }>(
      "SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off' AS writable, " +
        "current_setting('synchronous_commit') <> 'off' AS durable",
    );
    const [settings] = rows;
    if (settings?.writable !== true) {
      throw new NotPrimary("the server is a standby");
    }
    const timeline = await readTimeline(client);
    if (timeline < minTimeline) {
      throw new NotPrimary("the server was replaced by a promoted standby");
    }
    return { config, timeline, begin: settings.durable ? begin : begin + durable };
  } finally {
    void client.end().catch(() => {});
  }
}

async function readTimeline(client: PgClient): Promise<number> {
  try {
    const { rows } = await client.query<{ timeline: number }>(
      "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int AS timeline",
    );
    return rows[0]?.timeline ?? 0;
  } catch {
    // Some hosted databases have no log files that SQL can name.
    return 0;
  }
}
