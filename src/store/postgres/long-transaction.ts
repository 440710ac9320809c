import type { Database } from "./database.ts";
import { toFlowgateError } from "./postgres-error.ts";
import { type Query, queryOf } from "./query.ts";

/** A transaction of a command, which takes minutes and is not repeated. Disposing without `commit` rolls it back. */
export interface LongTransaction extends AsyncDisposable {
  readonly query: Query;
  commit(): Promise<void>;
}

/** How long a statement may take, for which larger amounts of data are read and written than by a service. */
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
