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
import { classify, describe, NotPrimary, unavailable } from "./postgres-error.ts";

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
  /** Opens a connection that is not part of the pool, which the caller ends. */
  connect(): Promise<PgClient>;
  health(): StoreHealth;
  /** Calls the listener after each change of `health`. */
  onHealthChange(listener: () => void): Disposable;
  /** Records that a connection has failed, and searches for the primary. */
  recordFailure(error: unknown): void;
}

/** The server that accepts writes. */
type Primary = {
  readonly pool: Pool;
  readonly config: ClientConfig;
  /** The statements that begin a transaction. */
  readonly begin: string;
  /** The id of its timeline, which increases when a standby is promoted; 0 if it is unknown. */
  readonly timeline: number;
};

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
  /** How long a query waits for the primary to be found. */
  patienceMs: 500,
} as const;

// With SET LOCAL, since connection poolers such as pgbouncer share sessions between clients. One message to the server.
const begin = `BEGIN; SET LOCAL statement_timeout = ${limits.statementMs}; SET LOCAL lock_timeout = ${limits.lockMs}; SET LOCAL idle_in_transaction_session_timeout = ${limits.idleInTransactionMs}`;

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

  async function findPrimary(): Promise<void> {
    // The first one that replies: another may not respond at all.
    const found = await Promise.any(servers.map((config) => probe(config, highestTimeline)));
    highestTimeline = Math.max(highestTimeline, found.timeline);
    const pool = new Pool({
      ...found.config,
      max: poolSize,
      connectionTimeoutMillis: limits.connectMs,
      query_timeout: limits.queryMs,
      keepAlive: true,
      allowExitOnIdle: true,
      types: parsers,
    });
    // An idle connection was closed by the server. Without a listener, the process would end.
    pool.on("error", recordFailure);
    primary = { ...found, pool };
    setHealth({ isUsable: true });
  }

  /** Searches until there is a primary. */
  function startSearch(): Promise<void> {
    search ??= (async () => {
      for (;;) {
        try {
          return await findPrimary();
        } catch (error) {
          setHealth({ isUsable: false, message: describe(error) });
        }
        if (isClosed) {
          return;
        }
        await new Promise((resolve) => setTimeout(resolve, limits.searchMs).unref());
      }
    })().finally(() => (search = undefined));
    return search;
  }

  function leave(left: Primary): void {
    if (primary === left) {
      primary = undefined;
      void startSearch();
    }
    // Waits for the connections in use, which fail by themselves.
    left.pool.end().catch(() => {});
  }

  function recordFailure(error: unknown): void {
    const failure = classify(error);
    if (isClosed || failure === "other" || failure === "busy") {
      return;
    }
    setHealth({ isUsable: false, message: describe(error) });
    if (failure === "connection" && primary !== undefined) {
      leave(primary);
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

  /** Runs the operation, and once more with a new connection if the first one fails. */
  async function repeatOnce<T>(operation: (primary: Primary) => Promise<T>): Promise<T> {
    try {
      return await operation(await current());
    } catch (error) {
      if (classify(error) !== "connection") {
        recordFailure(error);
        throw error;
      }
      recordFailure(error);
    }
    try {
      return await operation(await current());
    } catch (error) {
      recordFailure(error);
      throw error;
    }
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
      if (error instanceof InDoubt) {
        recordFailure(error.cause);
      }
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

  await findPrimary().catch((error: unknown) => {
    throw new Error(`the store can't be opened: ${describe(error)}`, { cause: error });
  });

  return {
    query: (text, values, withinMs) => repeatOnce(({ pool }) => queryOf(pool)(text, values, withinMs)),
    transaction: (work) => repeatOnce((primary) => runTransaction(primary, work)),
    async connect() {
      const { config } = await current();
      return connectTo(config);
    },
    health: () => health,
    onHealthChange: (listener) => listeners.add(listener),
    recordFailure,
    async [Symbol.asyncDispose]() {
      isClosed = true;
      const pool = primary?.pool;
      primary = undefined;
      setHealth({ isUsable: false, message: "the store is closed" });
      await pool?.end();
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

async function connectTo(config: ClientConfig): Promise<PgClient> {
  const client = new Client({
    ...config,
    connectionTimeoutMillis: limits.connectMs,
    query_timeout: limits.queryMs,
    keepAlive: true,
    types: parsers,
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
async function probe(config: ClientConfig, minTimeline: number): Promise<Omit<Primary, "pool">> {
  const client = await connectTo(config);
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
