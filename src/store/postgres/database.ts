import type { Client, Pool, PoolClient, QueryConfig } from "pg";
import type { DatabaseHealth } from "../store.ts";
import { type Query, toPortable } from "../sql/query.ts";
import { connect, limits } from "./connect.ts";
import { classify, toFlowgateError } from "./errors.ts";
import type { Location } from "./location.ts";
import { openPrimaryTracker, type Primary, type PrimaryTracker } from "./primary.ts";

/** Connects to the primary among the servers. Rejects if there is none. */
export async function openDatabase(location: Location): Promise<Database> {
  return new Database(await openPrimaryTracker(location));
}

/** One database over several servers. An operation whose connection fails is repeated once, on a new connection or the new primary. */
export class Database implements AsyncDisposable {
  readonly #tracker: PrimaryTracker;

  constructor(tracker: PrimaryTracker) {
    this.#tracker = tracker;
  }

  get health(): DatabaseHealth {
    return this.#tracker.health;
  }

  /** Reads. Repeated once if the connection fails. */
  readonly query: Query = (text, values, withinMs) =>
    repeatOnce(() => this.#run(({ pool }) => queryOf(pool)(text, values, withinMs)));

  /**
   * Runs `work` in a transaction, which is rolled back if it rejects. Begun again once if the connection fails before the
   * commit. Rejects with `InDoubt` if it fails during the commit.
   */
  async transaction<T>(work: (query: Query, primary: Primary) => Promise<T>): Promise<T> {
    const result = await repeatOnce(() => this.#run((primary) => inTransaction(primary, work)));
    this.health.set({ isUsable: true });
    return result;
  }

  /**
   * Opens a connection that is not part of the pool, which the caller ends. It is also closed when its server is found not to
   * respond, and at the latest when the database is disposed.
   */
  async connect(): Promise<Client> {
    const { config, sockets } = await this.#tracker.current();
    return connect(config, sockets);
  }

  async #run<T>(operation: (primary: Primary) => Promise<T>): Promise<T> {
    const primary = await this.#tracker.current();
    try {
      return await operation(primary);
    } catch (error) {
      this.#tracker.recordFailure(error instanceof InDoubt ? error.cause : error, primary);
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tracker[Symbol.asyncDispose]();
  }
}

/** Runs the operation, and once more if the connection fails, which opens a new one. */
export async function repeatOnce<T>(operation: () => Promise<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    if (classify(error) !== "connection") {
      throw error;
    }
  }
  return operation();
}

/** The connection has failed during a commit, which may have taken effect. */
export class InDoubt extends Error {}

// With SET LOCAL, since connection poolers such as pgbouncer share sessions between clients. One message to the server.
// Isolation levels above this one, which can be the default of a role, would reject concurrent commits.
const begin = `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = ${limits.statementMs}; SET LOCAL lock_timeout = ${limits.lockMs}; SET LOCAL idle_in_transaction_session_timeout = ${limits.idleInTransactionMs}`;

/** Replaces the setting `off`, with which a crash of the server loses commits that it has reported. */
const durable = "; SET LOCAL synchronous_commit = on";

/**
 * Runs `work` in a transaction, which is rolled back if it rejects. Rejects with `InDoubt` if the connection fails during the
 * commit.
 */
async function inTransaction<T>(primary: Primary, work: (query: Query, primary: Primary) => Promise<T>): Promise<T> {
  const client = await primary.pool.connect();
  let failed: Error | undefined;
  const onError = (error: Error): void => void (failed = error);
  client.on("error", onError);
  try {
    await client.query(primary.isDurable ? begin : begin + durable);
    const result = await work(queryOf(client), primary);
    await commit(client);
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

async function commit(client: PoolClient): Promise<void> {
  try {
    await client.query("COMMIT");
  } catch (cause) {
    throw classify(cause) === "connection"
      ? new InDoubt("the connection has failed during a commit", { cause })
      : (cause as Error);
  }
}

/** A transaction of a command, which takes minutes and is not repeated. Disposing without `commit` rolls it back. */
export interface LongTransaction extends AsyncDisposable {
  readonly query: Query;
  commit(): Promise<void>;
}

/** The time limit of a statement in a long transaction, which reads and writes more data than those of a service. */
const statementMs = 60_000;
const commitMs = 600_000;

/** Begins a transaction on a connection of its own. `mode` is as in BEGIN. */
export async function beginLongTransaction(database: Database, mode: string): Promise<LongTransaction> {
  await using stack = new AsyncDisposableStack();
  const client = await database.connect();
  stack.defer(() => client.end());
  const run = queryOf(client);
  const query: Query = async (text, values, withinMs = statementMs) => {
    try {
      return await run(text, values, withinMs);
    } catch (error) {
      throw toFlowgateError(error);
    }
  };
  await query(
    `BEGIN ${mode}; SET LOCAL statement_timeout = ${statementMs}; SET LOCAL lock_timeout = 5000;
     SET LOCAL idle_in_transaction_session_timeout = 0`,
  );
  const resources = stack.move();
  return {
    query,
    async commit() {
      // As for each transaction of a service.
      await query(
        "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'",
      );
      try {
        await query("COMMIT", [], commitMs);
      } catch (cause) {
        throw new Error(
          "the database failed during the commit, whose outcome is unknown: try again; if the database then has data, the commit was made",
          { cause },
        );
      }
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** Converts a client, or a pool, to the function that runs one statement. */
export function queryOf(client: Client | Pool | PoolClient): Query {
  return async (text, values = [], withinMs = limits.queryMs) => {
    const config: QueryConfig & { readonly query_timeout: number } = {
      text,
      values: values.map((value) => toPortable(value)),
      query_timeout: withinMs,
    };
    const { rows } = await client.query<never>(config);
    return rows;
  };
}
