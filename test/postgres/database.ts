import { randomBytes } from "node:crypto";
import { Client, type QueryResultRow } from "pg";

export type Database = {
  readonly name: string;
  /** Where its server listens. */
  readonly port: number;
  /** The URL for its owner `flowgate`, who is no superuser. */
  readonly url: string;
  /** This URL with other ports: that of a proxy, or those of several servers. */
  urlAt(...ports: readonly number[]): string;
  /** Runs a statement as its owner, in a session of its own. */
  query<Row extends QueryResultRow>(sql: string, values?: readonly unknown[]): Promise<Row[]>;
};

/** Where a server listens, and the password of its roles. */
export type Address = { readonly port: number; readonly password: string };

/** The URL for the superuser, whose commits do not wait for a standby. */
export function superuserUrl({ port, password }: Address): string {
  return `postgres://postgres:${password}@127.0.0.1:${port}/postgres?options=-c%20synchronous_commit%3Dlocal`;
}

export async function createDatabaseAt(address: Address): Promise<Database> {
  const name = `test_${randomBytes(6).toString("hex")}`;
  await query(superuserUrl(address), `CREATE DATABASE ${name} OWNER flowgate`);
  const urlAt = (...ports: readonly number[]): string =>
    `postgres://flowgate:${address.password}@${ports.map((port) => `127.0.0.1:${port}`).join(",")}/${name}`;
  const url = urlAt(address.port);
  return { name, port: address.port, url, urlAt, query: (sql, values) => query(url, sql, values) };
}

/** Runs a statement in a session of its own. */
export async function query<Row extends QueryResultRow>(
  url: string,
  sql: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const client = new Client({ connectionString: url });
  // A lost connection also rejects the calls.
  client.on("error", () => {});
  await client.connect();
  try {
    return (await client.query<Row>(sql, [...values])).rows;
  } finally {
    await client.end();
  }
}
