import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { hashPassword } from "../src/auth/passwords.ts";
import type { OptionsInput } from "../src/index.ts";
import { buildProgram } from "../test/program.ts";
import { type Server, type ServerOptions, openFolder, openServer } from "./server.ts";

/** The service, started by its command. */
export type Service = Server & {
  /** The Authorization header of an authenticated request. */
  readonly authorization: string;
};

/** The program of the service, from source. */
export const sourceProgram = new URL("../src/cli/main.ts", import.meta.url);
let built: Promise<URL> | undefined;

/** The program of the service, which is built once. */
export async function builtProgram(): Promise<URL> {
  built ??= buildProgram("bench").then(pathToFileURL);
  return built;
}

/** The user of the service. */
export const username = "bench";
export const password = "a password for benchmarks";

/** Starts the service with a user and these additional options. Resolves when it is ready. */
export async function openService(server: ServerOptions = {}, options: OptionsInput = {}): Promise<Service> {
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await openFolder());
  // Profiles have the names of source files.
  const entry = server.profileDir === undefined ? await builtProgram() : sourceProgram;
  const opened = stack.use(await openServer(entry, ["--config", await writeConfig(dir.path, options)], server));
  const authorization = await logIn(opened.url);
  await untilReady(opened.url);
  const all = stack.move();
  return { ...opened, authorization, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

/** Writes a configuration file with the data directory in `dir`, and returns its path. */
export async function writeConfig(dir: string, options: OptionsInput = {}): Promise<string> {
  const config: OptionsInput = {
    host: "127.0.0.1",
    port: 0,
    dataDir: join(dir, "data"),
    runtime: { port: 0 },
    adminAuth: { users: [{ username, password: await hashPassword(password), permissions: "*" }] },
    ...options,
  };
  // JSON is valid YAML.
  const file = join(dir, "flowgate.yaml");
  await writeFile(file, JSON.stringify(config), { mode: 0o600 });
  return file;
}

/** Resolves when the flow runtime is running. */
export async function untilReady(url: string): Promise<void> {
  const signal = AbortSignal.timeout(60_000);
  for (;;) {
    const response = await fetch(`${url}/readyz`, { signal });
    await response.bytes();
    if (response.ok) {
      return;
    }
    await sleep(10);
  }
}

async function logIn(url: string): Promise<string> {
  const response = await fetch(`${url}/auth/token`, {
    method: "POST",
    body: new URLSearchParams({ client_id: "service-admin", grant_type: "password", scope: "*", username, password }),
  });
  const { access_token: token } = (await response.json()) as { access_token: string };
  return `Bearer ${token}`;
}
