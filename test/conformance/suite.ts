import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { build } from "rolldown";
import { go, goEnvironment } from "../go.ts";

/** The version of connectrpc.com/conformance, which test/proto/connectrpc comes from. */
const version = "v1.0.7";
const root = join(import.meta.dirname, "../..");
const file = (name: string): string => join(import.meta.dirname, name);

/** The service; the gateway library alone on Node's servers and in Fastify; Connect's own adapter, to compare with. */
export const serversUnderTest = ["flowgate", "node", "fastify", "stock"] as const;
export type ServerUnderTest = (typeof serversUnderTest)[number];

const knownFailing = ["--known-failing", `@${file("known-failing.txt")}`];

const flagsOf: Readonly<Record<ServerUnderTest, readonly string[]>> = {
  flowgate: knownFailing,
  node: knownFailing,
  // TLS is that of Node's servers, with which the library runs alone too.
  fastify: [...knownFailing, "--skip", "**/TLS:true/**"],
  // With a message limit it stops reading an HTTP/2 body that is too large. The connection's flow-control window
  // then stays exhausted, and the other calls on that connection never complete.
  stock: ["--skip", "Server Message Size/**"],
};

/** Builds connectconformance unless it exists. Takes minutes without Go's caches. */
export async function installSuite(): Promise<string> {
  const folder = join(root, "node_modules/.cache/connectconformance", version);
  const program = join(folder, "connectconformance");
  if (!existsSync(program)) {
    const build = spawn(go ?? "go", ["install", `connectrpc.com/conformance/cmd/connectconformance@${version}`], {
      env: { ...process.env, ...goEnvironment, GOBIN: folder },
      stdio: "inherit",
    });
    const [status] = await once(build, "exit");
    if (status !== 0) {
      throw new Error("connectconformance could not be built; Go's output above has the reason");
    }
  }
  return program;
}

/** Bundles server.ts, of which the suite starts 16 processes: to load the sources takes most of the time of a start. Returns its path. */
export async function buildServer(): Promise<string> {
  const dir = join(root, "dist/tests/conformance");
  await build({
    cwd: root,
    input: file("server.ts"),
    platform: "node",
    external: [/^@node-red\//, "pg-native"],
    logLevel: "warn",
    output: { dir, format: "es" },
  });
  return join(dir, "server.js");
}

/** Runs the suite with flags of connectconformance. The signal ends it and the servers that it has started. */
export function startSuite(
  program: string,
  serverPath: string,
  server: ServerUnderTest,
  flags: readonly string[],
  signal: AbortSignal,
): ChildProcessByStdio<null, Readable, null> {
  signal.throwIfAborted();
  const suite = spawn(
    program,
    [
      "--mode=server",
      `--conf=${file("config.yaml")}`,
      "--max-servers=2",
      ...flagsOf[server],
      ...flags,
      "--",
      process.execPath,
      serverPath,
      server,
    ],
    { stdio: ["ignore", "pipe", "inherit"], detached: true },
  );
  const kill = (): void => {
    // Kills the process group, since servers would survive connectconformance.
    process.kill(-(suite.pid ?? 0), "SIGKILL");
  };
  signal.addEventListener("abort", kill);
  suite.once("exit", () => signal.removeEventListener("abort", kill));
  return suite;
}

/** The names of the cases that failed unexpectedly, or passed although they are known to fail. */
export function readFailures(output: string): string[] {
  return Array.from(
    output.matchAll(/^FAILED: (.*?)(?::| was expected to fail but did not)$/gm),
    ([, name = ""]) => name,
  );
}
