import type { PoolClient } from "pg";
import { limits } from "./limits.ts";
import { classify } from "./postgres-error.ts";
import type { Primary } from "./primary-tracker.ts";
import { type Query, queryOf } from "./query.ts";

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
export async function inTransaction<T>(
  primary: Primary,
  work: (query: Query, primary: Primary) => Promise<T>,
): Promise<T> {
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
