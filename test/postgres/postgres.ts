import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { inject } from "vitest";
import { createDatabaseAt, type Database, query, superuserUrl } from "./database.ts";
import type { Installation } from "./installation.ts";
import { openServer, type Server, type ServerOptions } from "./server.ts";
import type { Answer, Shared } from "./shared-server.ts";

// A worker would wait forever for the main process of a run that was killed, and servers that it started would stay.
process.once("disconnect", () => process.kill(process.pid));

/** Creates a database on the server that all test files share. */
export async function createDatabase(): Promise<Database & AsyncDisposable> {
  const address = await request("server");
  const database = await createDatabaseAt(address);
  return {
    ...database,
    async [Symbol.asyncDispose]() {
      await query(superuserUrl(address), `DROP DATABASE ${database.name} WITH (FORCE)`);
    },
  };
}

/** Starts a server of its own for a test that stops it, kills it or has it followed. */
export async function startServer(options?: ServerOptions): Promise<Server> {
  return openServer(await getInstallation(), options);
}

/** The installation of the run, for programs that start servers themselves. */
export function getInstallation(): Promise<Installation> {
  return request("installation");
}

async function request<Name extends keyof Shared>(name: Name): Promise<Shared[Name]> {
  const socket = connect(inject("postgresSocket"));
  socket.write(name);
  const answer = JSON.parse(await text(socket)) as Answer<Shared[Name]>;
  if ("error" in answer) {
    throw new Error(answer.error);
  }
  return answer.value;
}
