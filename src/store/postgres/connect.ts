import { type Client, type ClientConfig, Pool, TypeOverrides, types } from "pg";
import { type ServerConfig, clientOf } from "./authentication.ts";
import { limits } from "./limits.ts";
import type { Sockets } from "./sockets.ts";

const parsers = new TypeOverrides();
// All integers fit into a number: they count things or milliseconds.
parsers.setTypeParser(types.builtins.INT8, Number);
const parseBytes = types.getTypeParser(types.builtins.BYTEA) as (text: string) => Buffer;
parsers.setTypeParser(types.builtins.BYTEA, (text): Uint8Array => {
  const { buffer, byteOffset, byteLength } = parseBytes(text);
  return new Uint8Array(buffer, byteOffset, byteLength);
});

/** Opens a connection to the server, which the caller ends. */
export async function connect(config: ServerConfig, sockets: Sockets): Promise<Client> {
  const client = new (clientOf(config.authMethods))(connectionOptions(config, sockets));
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

/** Creates a pool, whose connections are opened when they are used. The caller must listen for errors of idle connections. */
export function createPool(config: ServerConfig, sockets: Sockets, max: number): Pool {
  return new Pool({
    ...connectionOptions(config, sockets),
    Client: clientOf(config.authMethods),
    max,
    allowExitOnIdle: true,
  });
}

function connectionOptions(config: ClientConfig, sockets: Sockets): ClientConfig {
  return {
    ...config,
    connectionTimeoutMillis: limits.connectMs,
    query_timeout: limits.queryMs,
    keepAlive: true,
    types: parsers,
    stream: () => sockets.create(),
  };
}
