import { spawn } from "node:child_process";
import { mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { exitCode, mainPath, runCli } from "./run-cli.ts";

test.each([["--help"], ["-h"], ["help"], ["start", "--help"], ["backup", "--help"]])(
  "%s %s teaches how to use it",
  async (...args) => {
    const { code, stdout, stderr } = await runCli(args);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    for (const part of ["hash-password", "--data-dir <path>", "FLOWGATE_RUNTIME_PORT", "adminAuth:", "curl "]) {
      expect(stdout).toContain(part);
    }
  },
);

test("--version prints the version of the package", async () => {
  const { version } = JSON.parse(await readFile("package.json", "utf8")) as { version: string };
  expect(await runCli(["--version"])).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
});

const hint = "flowgate: See flowgate --help for commands and flags.";

test.each([
  [["strat"], "Unknown command strat. Did you mean start?"],
  [["hash"], "Unknown command hash. Did you mean hash-password?"],
  [["version"], "Unknown command version. Did you mean --version?"],
  [["frobnicate"], "Unknown command frobnicate."],
  [["--prot", "1"], "Unknown flag --prot. Did you mean --port?"],
  [["-x"], "Unknown flag -x."],
  [["--port"], "--port requires a value."],
  [["--port="], "--port requires a value."],
  [["--config", "--help"], "--config requires a value."],
  [["--help=yes"], "--help takes no value."],
  [["restore", "file.db", "--bar", "x"], "Unknown flag --bar."],
  [["backup", "file.db", "--port", "1"], "Unknown flag --port."],
  [["--dat-dir", "x", "restore", "file.db"], "Unknown flag --dat-dir. Did you mean --data-dir?"],
  [["backup"], "backup requires the path of one file."],
  [["restore", "one", "two"], "restore requires the path of one file."],
  [["audit"], "audit requires verify, and optionally a head that it printed earlier."],
  [["audit", "verify", "one", "two"], "audit requires verify, and optionally a head that it printed earlier."],
  [
    ["audit", "verify", "12"],
    "audit verify takes a head as it printed it earlier: a number, a colon and 64 hexadecimal digits.",
  ],
  [["audit", "verify", "--port", "1"], "Unknown flag --port."],
  [["migrate"], "migrate requires --from, --to or both: the URLs of the stores."],
  [["migrate", "sqlite:a", "sqlite:b"], "migrate takes no arguments other than flags."],
  [["migrate", "--from", "sqlite:a", "--store", "sqlite:b"], "Unknown flag --store."],
  [["--from", "sqlite:a"], "Unknown flag --from."],
  [
    ["migrate", "--from", "sqlite:a", "--to", "sqlite:a"],
    "--from and --to are the same store. The one that is left out is the configured store.",
  ],
  [["start", "now"], "start takes no arguments other than flags."],
  [
    ["hash-password", "hunter2"],
    "hash-password takes no arguments, as other users of this machine could see them. It prompts, or reads a line from stdin.",
  ],
])("rejects %j with a hint", async (args, message) => {
  expect(await runCli(args)).toEqual({ code: 2, stdout: "", stderr: `flowgate: ${message}\n${hint}\n` });
});

const range = "must be a whole number from 0 to 65535";

test.each<[string[], Record<string, string>, string]>([
  [["--port", "many"], {}, `--port: ${range}`],
  [["--port=-1"], {}, `--port: ${range}`],
  [["--runtime-port", "65536"], {}, `--runtime-port: ${range}`],
  [[], { FLOWGATE_PORT: "8o8o" }, `FLOWGATE_PORT: ${range}`],
  [
    ["--port", "x"],
    { FLOWGATE_PORT: "1", FLOWGATE_RUNTIME_PORT: "y" },
    `--port: ${range}\nflowgate: FLOWGATE_RUNTIME_PORT: ${range}`,
  ],
  [
    ["--config", "/nowhere.yaml"],
    {},
    "--config: there is no file /nowhere.yaml: correct its path, or omit --config to start with the defaults",
  ],
  [
    [],
    { FLOWGATE_CONFIG: "/nowhere.yaml" },
    "FLOWGATE_CONFIG: there is no file /nowhere.yaml: correct its path, or omit FLOWGATE_CONFIG to start with the defaults",
  ],
  [["--config", "/"], {}, "--config: / is a directory: specify a file"],
  [
    ["--host", "0.0.0.0"],
    {},
    "--host: would give every client on the network all permissions, since adminAuth is not set: set adminAuth, listen on 127.0.0.1, or set allowUnauthenticated: true",
  ],
])("does not start with %j and %j", async (args, env, message) => {
  expect(await runCli(args, { env })).toEqual({ code: 1, stdout: "", stderr: `flowgate: ${message}\n` });
});

test.runIf(process.platform === "linux")("does not start if the data directory can't be created", async () => {
  expect(await runCli(["--port", "0", "--data-dir", "/proc/flowgate/data"])).toEqual({
    code: 1,
    stdout: "",
    stderr:
      "flowgate: The data directory /proc/flowgate/data cannot be used (ENOENT: no such file or directory, mkdir '/proc/flowgate'): choose another with --data-dir, FLOWGATE_DATA_DIR or dataDir.\n",
  });
});

test.skipIf(process.platform === "win32")("does not start in a working directory that was deleted", async () => {
  const cwd = await mkdtemp(join(tmpdir(), "flowgate-"));
  const script = `rmdir "${cwd}" && exec "${process.execPath}" "${mainPath}" --port 0`;
  const child = spawn("sh", ["-c", script], { cwd, stdio: ["ignore", "pipe", "pipe"] });
  const [code, stderr] = await Promise.all([exitCode(child), text(child.stderr)]);
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr:
      "flowgate: The working directory was deleted, and the data directory ./data, or the store, is relative to it: start Flowgate in another directory, or specify an absolute path with --data-dir, FLOWGATE_DATA_DIR or dataDir.\n",
  });
});
