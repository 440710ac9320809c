import { once } from "node:events";
import { mkdtempDisposable } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import type { Address } from "./database.ts";
import { type Installation, openInstallation } from "./installation.ts";
import { openServer } from "./server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The socket where test files request what they share, which run in several processes. */
    postgresSocket: string;
  }
}

/** What test files can request. It is opened for the first request, and closed after the run. */
export type Shared = {
  readonly installation: Installation;
  /** The server with the databases of the tests. It would lose data if the machine crashed. */
  readonly server: Address;
};

export type Answer<T> = { readonly value: T } | { readonly error: string };

type Sources = { readonly [Name in keyof Shared]: () => Promise<Shared[Name]> };

const fast = { fsync: "off", full_page_writes: "off", synchronous_commit: "off", wal_keep_size: "0" };

const resources = new AsyncDisposableStack();

/** Called by vitest before the tests. */
export async function setup(project: TestProject): Promise<void> {
  const folder = resources.use(await mkdtempDisposable(join(tmpdir(), "flowgate-tests-")));
  const installation = share(openInstallation);
  const server = share(async () => openServer(await installation(), { settings: fast }));
  const sources: Sources = {
    installation,
    server: async () => ({ port: (await server()).port, password: (await installation()).password }),
  };
  const listener = createServer((socket) => {
    // The process at the other end has ended.
    answer(socket, sources).catch(() => socket.destroy());
  });
  const path = join(folder.path, "postgres.sock");
  listener.listen(path);
  await once(listener, "listening");
  resources.defer(() => void listener.close());
  project.provide("postgresSocket", path);
}

/** Called by vitest after the tests. */
export function teardown(): Promise<void> {
  return resources.disposeAsync();
}

function share<T extends AsyncDisposable>(open: () => Promise<T>): () => Promise<T> {
  let opened: Promise<T> | undefined;
  // Those who requested it got the error.
  resources.defer(async () => (await opened?.catch(() => undefined))?.[Symbol.asyncDispose]());
  return () => (opened ??= open());
}

async function answer(socket: Socket, sources: Sources): Promise<void> {
  const [name] = (await once(socket.setEncoding("utf8"), "data")) as [keyof Shared];
  const result: Promise<Answer<unknown>> = sources[name]().then(
    (value) => ({ value }),
    (error: unknown) => ({ error: String(error) }),
  );
  socket.on("error", () => {});
  socket.end(JSON.stringify(await result));
}
