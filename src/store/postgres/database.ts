import type { Client } from "pg";
import type { Store } from "../store.ts";
import { connect } from "./connect.ts";
import { createHealth } from "./health.ts";
import type { Location } from "./location.ts";
import { classify } from "./postgres-error.ts";
import { type Primary, openPrimaryTracker } from "./primary-tracker.ts";
import { type Query, queryOf } from "./query.ts";
import { InDoubt, inTransaction } from "./transaction.ts";

/** One database over several servers. An operation whose connection fails is repeated once, on a new connection or the new primary. */
export interface Database extends Pick<Store, "health" | "onHealthChange">, AsyncDisposable {
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
  connect(): Promise<Client>;
}

/** Connects to the primary among the servers. Rejects if there is none. */
export async function openDatabase(location: Location): Promise<Database> {
  const health = createHealth();
  const tracker = await openPrimaryTracker(location, health);

  async function runOnce<T>(operation: (primary: Primary) => Promise<T>): Promise<T> {
    const primary = await tracker.current();
    try {
      return await operation(primary);
    } catch (error) {
      tracker.recordFailure(error instanceof InDoubt ? error.cause : error, primary);
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

  return {
    query: (text, values, withinMs) => repeatOnce(({ pool }) => queryOf(pool)(text, values, withinMs)),
    transaction: (work) =>
      repeatOnce(async (primary) => {
        const result = await inTransaction(primary, work);
        health.set({ isUsable: true });
        return result;
      }),
    async connect() {
      const { config, sockets } = await tracker.current();
      return connect(config, sockets);
    },
    health: health.health,
    onHealthChange: health.onHealthChange,
    [Symbol.asyncDispose]: () => tracker[Symbol.asyncDispose](),
  };
}
