import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer, type Server } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { lockDataDir } from "../../src/store/lock.ts";
import { createAuthority, issueServer } from "../certificates.ts";
import { cliEnvironment, exitCode, mainPath, runCli } from "../cli/run-cli.ts";
import { createFolder } from "../store/builders.ts";
import { isRunning } from "./service.ts";

/** Prepares a failure in the folder of the service, and returns the configuration that runs into it. */
type Obstacle = (folder: string, stack: AsyncDisposableStack) => object | Promise<object>;

async function listen(server: Server, stack: AsyncDisposableStack): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  stack.defer(() => void server.close());
  return (server.address() as AddressInfo).port;
}

const certificate =
  (cert: string, key: string): Obstacle =>
  async (folder) => {
    const [certFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
    await Promise.all([writeFile(certFile, cert), writeFile(keyFile, key)]);
    return { tls: { certFile, keyFile } };
  };

const authority = createAuthority();

// A process that keeps running after it has reported the failure would not be restarted by what supervises it.
test.each<[what: string, obstacle: Obstacle, message: RegExp]>([
  [
    "its port is taken",
    async (_, stack) => ({ port: await listen(createServer(), stack) }),
    /^flowgate: Port \d+ on 127\.0\.0\.1 is in use: choose another with --port, FLOWGATE_PORT or port\.\n$/,
  ],
  [
    "the port of the metrics is taken",
    async (_, stack) => ({ metrics: { port: await listen(createServer(), stack) } }),
    /^flowgate: Port \d+ on 127\.0\.0\.1 is in use: choose another with --metrics-port, /,
  ],
  [
    "its host is no address of this machine",
    () => ({ host: "192.0.2.1", allowUnauthenticated: true }),
    /^flowgate: 192\.0\.2\.1 is not an address of this machine: /,
  ],
  [
    "the host of the metrics is no address of this machine",
    () => ({ metrics: { port: 0, host: "192.0.2.1" } }),
    /^flowgate: 192\.0\.2\.1 is not an address of this machine: choose another with metrics\.host\.\n$/,
  ],
  [
    "another process listens on its Unix socket",
    async (folder, stack) => {
      const server = createServer().listen(join(folder, "s"));
      await once(server, "listening");
      stack.defer(() => void server.close());
      return { socket: join(folder, "s") };
    },
    /^flowgate: Flowgate cannot start: socket: another process listens on .*\/s: /,
  ],
  [
    "the folder of its Unix socket is missing",
    (folder) => ({ socket: join(folder, "missing/s") }),
    /^flowgate: Flowgate cannot start: socket: can't listen on .*\/missing\/s \(ENOENT/,
  ],
  [
    "another process has locked the data directory",
    (folder, stack) => {
      stack.use(lockDataDir(join(folder, "data")));
      return {};
    },
    /^flowgate: Flowgate cannot start: another Flowgate runs on the data directory /,
  ],
  [
    "its database is no database",
    async (folder) => {
      await mkdir(join(folder, "data"));
      await writeFile(join(folder, "data/flowgate.db"), "precious".repeat(1_000));
      return {};
    },
    /^flowgate: Flowgate cannot start: .*\/data\/flowgate\.db is not a SQLite database, /,
  ],
  [
    "no database server listens",
    () => ({ store: "postgres://flowgate@127.0.0.1:1/flowgate", credentialSecret: "a long and random secret" }),
    /^flowgate: Flowgate cannot start: the store can't be opened: no database accepts connections /,
  ],
  ["its certificate can't be read", certificate("no certificate", "no key"), /^flowgate: .*tls\.certFile/],
  [
    "its key is another certificate's",
    certificate(issueServer(authority).cert, issueServer(authority).key),
    /^flowgate: .*tls\.keyFile: is not the key of the certificate/,
  ],
])("reports that it can't start and exits if %s", async (_, obstacle, message) => {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await createFolder());
  const configuration = { port: 0, runtime: { port: 0 }, dataDir: "data", ...(await obstacle(folder.path, stack)) };
  await writeFile(join(folder.path, "flowgate.yaml"), JSON.stringify(configuration));
  const { code, stderr } = await runCli(["--config", "flowgate.yaml"], { cwd: folder.path });
  expect(stderr).toMatch(message);
  expect(code).toBe(1);
  expect(existsSync(join(folder.path, "data/flowgate.sock"))).toBe(false);
  const runtimePid = Number.parseInt(
    await readFile(join(folder.path, "data/runtime-process"), "utf8").catch(() => "0"),
  );
  expect(await isRunning(runtimePid)).toBe(false);
});

test("a taken port of the flows is no failure of the service, which stops as usual", async () => {
  await using stack = new AsyncDisposableStack();
  const port = await listen(createServer(), stack);
  const folder = stack.use(await createFolder());
  const args = [mainPath, "--port", "0", "--runtime-port", String(port), "--data-dir", folder.path];
  const service = spawn(process.execPath, args, { env: cliEnvironment() });
  const exited = exitCode(service);
  for await (const line of createInterface({ input: service.stdout })) {
    if (line.includes("HTTP-in nodes can't listen on")) {
      service.kill();
    }
  }
  expect(await exited).toBe(0);
});
