import type { Client, Pool, PoolClient, QueryConfig } from "pg";
import { limits } from "./limits.ts";

/** Runs one statement, and returns its rows. `withinMs` limits how long it waits for the server. */
export type Query = <Row extends object>(
  text: string,
  values?: readonly unknown[],
  withinMs?: number,
) => Promise<Row[]>;

/** Converts a client, or a pool, to the function that runs one statement. */
export function queryOf(client: Client | Pool | PoolClient): Query {
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
