import { spawn } from "node:child_process";
import { mkdtemp, open, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import type { Command } from "commander";
import { createCommandLine } from "@flowgate/cli";
import { createServiceCommands } from "../../src/cli/service-commands.ts";
import { exitCode, mainPath, runCli } from "./run-cli.ts";
import { runCommand } from "./run-command.ts";
import { unusedProgram } from "./unused-program.ts";
import { needs, onLinux } from "../needs.ts";

test.each([
  [["--help"], ["hash-password", "flowgate status", "Run the service:"]],
  [["-h"], ["Connect:"]],
  [["help"], ["Connect:"]],
  [
    ["serve", "--help"],
    ["--data-dir <path>", "FLOWGATE_RUNTIME_PORT", "adminAuth:"],
  ],
  [["help", "serve"], ["--data-dir <path>"]],
  [
    ["backup", "--help"],
    ["--data-dir <path>", "Examples:"],
  ],
  [
    ["audit", "verify", "--help"],
    ["--server <server>", "--data-dir <path>"],
  ],
])("%j teaches how to use it", async (args, parts) => {
  const { code, stdout, stderr } = await runCommand(args);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  for (const part of parts) {
    expect(stdout).toContain(part);
  }
});

/** The words of all commands. */
const commandLine = createCommandLine({ version: "", service: createServiceCommands(unusedProgram) });
const paths = (command: Command, path: readonly string[] = []): (readonly string[])[] =>
  command.commands
    .filter((each) => each.name() !== "complete")
    .flatMap((each) => [[...path, each.name()], ...paths(each, [...path, each.name()])]);

test.each(paths(commandLine).map((path) => [path.join(" ")]))(
  "the help of %s has examples and a description",
  (path) => {
    const command = path
      .split(" ")
      .reduce((found, name) => found.commands.find((each) => each.name() === name) ?? found, commandLine);
    let help = "";
    command.configureOutput({ writeOut: (text) => (help += text) }).outputHelp();
    expect(help).toContain(`\nExamples:\n  `);
    expect(help).toContain(path);
    expect(command.summary()).toMatch(/^[a-z].*[^.]$/);
    expect(command.description()).toMatch(/^[A-Z][^]*\.$/);
  },
);

test("the client alone knows all commands and flags of the service, to say what they need", () => {
  const flagsOf = (command: Command): [string, string[]][] => [
    [command.name(), command.options.map(({ long = "" }) => long).toSorted()],
    ...command.commands.flatMap(flagsOf),
  ];
  const client = createCommandLine({ version: "" });
  expect(client.commands.map((each) => each.name()).toSorted()).toEqual(
    commandLine.commands.map((each) => each.name()).toSorted(),
  );
  const isShared = (command: Command): boolean => ["module", "audit"].includes(command.name());
  expect(client.commands.filter(isShared).flatMap(flagsOf)).toEqual(
    commandLine.commands.filter(isShared).flatMap(flagsOf),
  );
});

test("shows the flags of the connection where a server is called only", async () => {
  const [status, serve, list] = await Promise.all([
    runCommand(["status", "--help"]),
    runCommand(["serve", "--help"]),
    runCommand(["server", "list", "--help"]),
  ]);
  expect(status.stdout).toContain("--server <server>");
  expect(serve.stdout).not.toMatch(/--server|--output/);
  expect(list.stdout).not.toContain("--server");
  expect(list.stdout).toContain("--output");
});

test("a reader that closes its pipe early is no failure", async () => {
  const child = spawn(process.execPath, [mainPath, "--version"], { stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.destroy();
  const [stderr, code] = await Promise.all([text(child.stderr), exitCode(child)]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});

test("a full disk is a failure", onLinux, async () => {
  const disk = await open("/dev/full", "w");
  const child = spawn(process.execPath, [mainPath, "--version"], { stdio: ["ignore", disk.fd, "pipe"] });
  const [stderr, code] = await Promise.all([text(child.stderr as Readable), exitCode(child)]);
  await disk.close();
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: "flowgate: stdout cannot be written: ENOSPC: no space left on device, write\n",
  });
});

test("--version prints the version of the package", async () => {
  const { version } = JSON.parse(await readFile("package.json", "utf8")) as { version: string };
  expect(await runCli(["--version"])).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
});

test.each([
  [["strat"], "Unknown command 'strat'. Did you mean start?"],
  [["contxt"], "Unknown command 'contxt'. Did you mean context?"],
  [["frobnicate"], "Unknown command 'frobnicate'."],
  [["audit", "verfy"], "Unknown command 'verfy'. Did you mean verify?", "audit"],
  [["hash"], "Unknown command 'hash'. Did you mean hash-password?"],
  [["log"], "Unknown command 'log'. Did you mean one of login, logout, logs?"],
  [["token", "cre"], "Unknown command 'cre'. Did you mean create?", "token"],
  [[""], "Unknown command ''."],
  [["--prot", "1"], "Unknown option '--prot'. Did you mean --port?", "serve"],
  [["deploy", "--undo"], "Unknown option '--undo'. Did you mean --undo-on-failure?", "deploy"],
  [["status", "--out"], "Unknown option '--out'. Did you mean --output?", "status"],
  [["-x"], "Unknown option '-x'.", "serve"],
  [["--port"], "Option '--port <number>' argument missing.", "serve"],
  [["--port="], "--port requires a value.", "serve"],
  [["restore", "file.db", "--bar", "x"], "Unknown option '--bar'.", "restore"],
  [["backup", "file.db", "--port", "1"], "Unknown option '--port'.", "backup"],
  [
    ["--data-dir", "x", "restore", "file.db"],
    "Write the flags of a command after its name: flowgate restore --data-dir x",
    "restore",
  ],
  [["backup"], "Missing required argument 'file'.", "backup"],
  [["restore", "one", "two"], "Too many arguments for 'restore'. Expected 1 argument but got 2: one, two.", "restore"],
  [
    ["audit", "verify", "one", "--store", "sqlite:a"],
    "audit verify takes a head as it printed it earlier: a number, a colon and 64 hexadecimal digits.",
    "audit verify",
  ],
  [
    ["audit", "verify", "--store", "sqlite:a", "--server", "http://localhost"],
    "audit verify checks the log either at a server or in a store: use --server, or else --config, --data-dir or --store.",
    "audit verify",
  ],
  [["audit", "verify", "--port", "1"], "Unknown option '--port'.", "audit verify"],
  [
    ["audit", "list", "--since", "yesterday"],
    "Option '--since <time>' argument 'yesterday' is invalid. It must be a time such as 2026-03-01T09:30:00Z, or a duration before now such as 24h.",
    "audit list",
  ],
  [
    ["events", "--kinds", "deployment,nothing"],
    "Option '--kinds <kinds>' argument 'deployment,nothing' is invalid. There is no kind \"nothing\", only deployment, runtime_state, node_status, node_error, debug, log, module, token, users, proposal, editor_message, health.",
    "events",
  ],
  [
    ["logs", "--kinds", "debug"],
    "Option '--kinds <kinds>' argument 'debug' is invalid. There is no kind \"debug\", only deployment, runtime_state, node_error, log, module, token, users, proposal, health.",
    "logs",
  ],
  [
    ["logs", "--level", "loud"],
    "Option '--level <level>' argument 'loud' is invalid. Allowed choices are fatal, error, warn, info, debug, trace.",
    "logs",
  ],
  [["logs", "-f", "--until", "1h"], "-f waits for what comes, and --until ends before now: use one of them.", "logs"],
  [
    ["token", "list", "--limit", "0"],
    "Option '--limit <number>' argument '0' is invalid. It must be a whole number from 1 to 9999999.",
    "token list",
  ],
  [
    ["token", "create", "ci", "--expires-in", "soon"],
    "Option '--expires-in <duration>' argument 'soon' is invalid. It must be a duration such as 30d, 12h, 15m or 90s.",
    "token create",
  ],
  [["token", "revoke"], "token revoke requires ids, --user or --all, and only one of them.", "token revoke"],
  [["migrate"], "migrate requires --from, --to or both: the URLs of the stores.", "migrate"],
  [["migrate", "--from", "sqlite:a", "--store", "sqlite:b"], "Unknown option '--store'.", "migrate"],
  [
    ["migrate", "--from", "sqlite:a", "--to", "sqlite:a"],
    "--from and --to are the same store. The one that is left out is the configured store.",
    "migrate",
  ],
  [["serve", "now"], "Too many arguments for 'serve'. Expected 0 arguments but got 1: now.", "serve"],
  [["serve", "--server", "x"], "serve takes no --server, since it connects to no server.", "serve"],
  [["version", "-o", "json"], "version takes no --output, since it connects to no server.", "version"],
  [["server", "list", "--timeout", "1"], "list takes no --timeout, since it connects to no server.", "server list"],
  [["status", "--timeout", "soon"], "--timeout: must be a number of seconds up to 86400, such as 30."],
  [
    ["status", "-o", "xml"],
    "Option '-o, --output <format>' argument 'xml' is invalid. Allowed choices are json, yaml.",
    "status",
  ],
  [["status", "--context", "b"], "Unknown option '--context'. It is --server now.", "status"],
  [["context", "use", "b"], "Unknown command 'use'. It is flowgate server use now.", "context"],
  [
    ["hash-password", "hunter2"],
    "hash-password takes no arguments, as other users of this machine could see them. It prompts, or reads a line from stdin.",
    "hash-password",
  ],
])("rejects %j with a hint", async (args, message, command?: string) => {
  const hint = `See ${["flowgate", command].filter(Boolean).join(" ")} --help.`;
  const stderr = `flowgate: ${message}\nflowgate: ${hint}\n`;
  expect(await runCommand(args)).toEqual({ code: 1, stdout: "", stderr });
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
  expect(await runCommand(args, { env })).toEqual({ code: 1, stdout: "", stderr: `flowgate: ${message}\n` });
});

test("does not start if the data directory can't be created", onLinux, async () => {
  expect(await runCli(["--port", "0", "--data-dir", "/proc/flowgate/data"])).toEqual({
    code: 1,
    stdout: "",
    stderr:
      "flowgate: The data directory /proc/flowgate/data cannot be used (ENOENT: no such file or directory, mkdir '/proc/flowgate'): choose another with --data-dir, FLOWGATE_DATA_DIR or dataDir.\n",
  });
});

test(
  "does not start in a working directory that was deleted",
  needs("a system other than Windows", process.platform !== "win32"),
  async () => {
    const cwd = await mkdtemp(join(tmpdir(), "flowgate-"));
    const script = `rmdir "${cwd}" && exec "${process.execPath}" "${mainPath}" --port 0`;
    const child = spawn("sh", ["-c", script], { cwd, stdio: ["ignore", "pipe", "pipe"] });
    const [code, stderr] = await Promise.all([exitCode(child), text(child.stderr)]);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr:
        "flowgate: The working directory was deleted, and the data directory ./data, or the store, is relative to it: start Flowgate in another directory, or specify an absolute path with --data-dir, FLOWGATE_DATA_DIR or dataDir.\n",
    });
  },
);
