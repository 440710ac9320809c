import { Socket } from "node:net";
import { type Client, type ClientConfig, Pool, TypeOverrides, types } from "pg";
import { type ServerConfig, clientOf } from "./authentication.ts";

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

/** The sockets of connections to one server. */
export class Sockets {
  readonly #open = new Set<Socket>();

  create(): Socket {
    const socket = new Socket();
    this.#open.add(socket);
    socket.once("close", () => this.#open.delete(socket));
    return socket;
  }

  /** Closes them at once, so that queries in progress fail even if the server does not respond. */
  destroy(): void {
    this.#open.forEach((socket) => socket.destroy());
  }
}

/** The time limits of this program for PostgreSQL. */
export const limits = {
  /** The time limit for opening a connection. */
  connectMs: 2_000,
  /** Limits statements on the server. */
  statementMs: 10_000,
  /** The time limit of a statement's wait for a lock. */
  lockMs: 5_000,
  /** So that a process that is stopped in a transaction does not block the others. */
  idleInTransactionMs: 2_000,
  /** Limits queries here, for servers that no longer respond. */
  queryMs: 15_000,
  /** Pause before a server is probed again. */
  searchPauseMs: 200,
  /** The time limit for a server's answer to a probe. */
  probeMs: 3_000,
  /** The time that disposing waits for the server to close connections. */
  endMs: 1_000,
  /** The time that a query waits for the primary to be found. */
  primaryWaitMs: 500,
} as const;
