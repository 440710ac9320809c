import { spawn } from "node:child_process";
import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { explainStartFailure } from "../../src/cli/serve.ts";
import { parseOptions } from "../../src/options/parse.ts";
import { exitCode } from "./run-cli.ts";

const fixture = fileURLToPath(new URL("./gateway-fixture.ts", import.meta.url));

/** Runs the fixture, and sends a signal at each of these output lines in turn, at this interval by the clock of the fixture. */
async function run(
  mode: string,
  signals: readonly (readonly [line: string, signal: NodeJS.Signals])[],
  intervalMs = 1_001,
) {
  const child = spawn(process.execPath, [fixture, mode, String(intervalMs)]);
  const left = [...signals];
  let shown = "";
  child.stdout.on("data", (chunk: Buffer) => {
    shown += chunk.toString();
    const [line, signal] = left[0] ?? [];
    if (line !== undefined && shown.includes(line)) {
      left.shift();
      child.kill(signal);
    }
  });
  const [code, stderr] = await Promise.all([exitCode(child), text(child.stderr)]);
  return { code, shown, stderr };
}

const banner =
  "Flowgate listens on http://127.0.0.1:8080\n" +
  "Unix socket for local operators: data/flowgate.sock\n" +
  "Web console: http://127.0.0.1:8080/console\n" +
  "Documentation of the API: http://127.0.0.1:8080/docs\n" +
  "Authentication: off: all clients that can reach this port have all permissions (set adminAuth to change that)\n" +
  "HTTP-in nodes of the flows: a free port (see GET /settings) on localhost\n";

test.each([
  ["SIGTERM", 7],
  ["SIGINT", 0],
] as const)("drains at %s, with a delay of %i ms", async (signal, delayMs) => {
  const shown = `${banner}stopping in ${delayMs} ms\n`;
  expect(await run("stops", [["HTTP-in", signal]])).toEqual({ code: 0, shown, stderr: "" });
});

test.each([
  ["SIGTERM", 143],
  ["SIGINT", 130],
] as const)("ends at once at a second signal, %s, with %i", async (signal, code) => {
  const outcome = await run("hangs", [
    ["HTTP-in", "SIGTERM"],
    ["stopping", signal],
  ]);
  expect(outcome).toEqual({ code, shown: `${banner}stopping in 7 ms\n`, stderr: "" });
});

test("takes a signal that is repeated within a second for the same request", async () => {
  const outcome = await run(
    "stops later",
    [
      ["HTTP-in", "SIGINT"],
      ["stopping", "SIGINT"],
    ],
    1_000,
  );
  expect(outcome).toEqual({ code: 0, shown: `${banner}stopping in 0 ms\n`, stderr: "" });
});

test("reports in one line why it can't start", async () => {
  expect(await run("fails", [])).toEqual({
    code: 1,
    shown: "",
    stderr: "Port 8080 on ::1 is in use: choose another with --port, FLOWGATE_PORT or port.\n",
  });
});

test("reports a port that is really in use", async () => {
  const first = createServer().listen(0, "127.0.0.1");
  await once(first, "listening");
  const { port } = first.address() as AddressInfo;
  const [error] = (await once(createServer().listen(port, "127.0.0.1"), "error").catch((error: unknown) => [
    error,
  ])) as [unknown];
  first.close();
  expect(explainStartFailure(error, parseOptions({ port })).message).toBe(
    `Port ${port} on 127.0.0.1 is in use: choose another with --port, FLOWGATE_PORT or port.`,
  );
});

const failed = (code: string, message: string) => Object.assign(new Error(message), { code });

test.each([
  [
    failed("EACCES", "EACCES: permission denied, mkdir './data'"),
    "The data directory ./data cannot be used (EACCES: permission denied, mkdir './data'): choose another with --data-dir, FLOWGATE_DATA_DIR or dataDir.",
  ],
  [
    failed("ERR_SQLITE_ERROR", "unable to open database file"),
    "The data directory ./data cannot be used (unable to open database file): choose another with --data-dir, FLOWGATE_DATA_DIR or dataDir.",
  ],
  [
    failed("EADDRNOTAVAIL", "listen EADDRNOTAVAIL"),
    "localhost is not an address of this machine: choose another with --host, FLOWGATE_HOST or host.",
  ],
  [new Error("first line\nsecond line"), "Flowgate cannot start: first line"],
  ["text", "Flowgate cannot start: text"],
])("explains %s", (error, message) => {
  expect(explainStartFailure(error, parseOptions({})).message).toBe(message);
});
