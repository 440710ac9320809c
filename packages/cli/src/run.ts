import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";
import { type Command, CommanderError } from "commander";
import { type CommandLineOptions, commandPath, createCommandLine } from "./command-line.ts";
import { CliFailure, UsageFailure } from "./failure.ts";
import { printableLines } from "./printable.ts";

/** Runs the command of the command line. Reports failures on stderr and by the exit code. */
export async function runCommandLine(options: CommandLineOptions): Promise<void> {
  handleOutputErrors();
  try {
    await run(createCommandLine(options), process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof CliFailure)) {
      throw error;
    }
    if (error.message !== "") {
      process.stderr.write(`${printableLines(error.message).replaceAll(/^/gm, "flowgate: ")}\n`);
    }
    process.exitCode = error.exitCode;
  }
}

/** The version of the package that contains this module. */
export function readVersion(moduleUrl: string): string {
  const manifest = readFileSync(findPackageJSON(moduleUrl) ?? "", "utf8");
  return (JSON.parse(manifest) as { version: string }).version;
}

async function run(commandLine: Command, argv: readonly string[]): Promise<void> {
  let words = argv;
  let called = commandLine;
  commandLine.hook("preAction", (_, command) => {
    called = command;
  });
  try {
    const { operands, unknown } = commandLine.parseOptions([...argv]);
    const isBare = operands.length === 0 && !unknown.some((flag) => flag === "--help" || flag === "-h");
    if (isBare) {
      assertNoCommand(commandLine, unknown);
      words = ["serve", ...argv];
    }
    await commandLine.parseAsync([...words], { from: "user" });
  } catch (error) {
    const failure = error instanceof CommanderError ? toFailure(error, findPath(commandLine, words)) : error;
    if (failure instanceof UsageFailure) {
      const command = failure.command ?? commandPath(called);
      throw new CliFailure(`${failure.message}\nSee ${command} --help.`, { cause: error });
    }
    if (failure !== undefined) {
      throw failure;
    }
  }
}

/** Flags without a command are those of `serve`. */
function assertNoCommand(commandLine: Command, words: readonly string[]): void {
  const position = words.findIndex((word, index) => !(words[index - 1] ?? "").startsWith("--") && isCommand(word));
  const command = words[position];
  if (command !== undefined) {
    const flags = words.slice(0, position).join(" ");
    throw new UsageFailure(
      `Write the flags of a command after its name: flowgate ${command} ${flags}`,
      `flowgate ${command}`,
    );
  }

  function isCommand(word: string): boolean {
    return commandLine.commands.some((each) => each.name() === word || each.aliases().includes(word));
  }
}

/** Undefined: help or the version, which commander has printed. `path` leads to the command of the error. */
function toFailure({ exitCode, code, message }: CommanderError, path: readonly Command[]): CliFailure | undefined {
  if (exitCode === 0) {
    return undefined;
  }
  // A group of commands without a command: commander has printed its help.
  if (code === "commander.help") {
    return new CliFailure("");
  }
  const [first = "", ...rest] = message.replace(/^error: /, "").split("\n");
  const beginning = suggestBeginning(first, path);
  const hints = beginning ?? rest.map((line) => ` ${line.replace(/^\((.*)\)$/, "$1")}`).join("");
  const problem = `${first.charAt(0).toUpperCase()}${first.slice(1)}`.replace(/\.?$/, ".");
  return new UsageFailure(`${problem}${hints}`, path.map((command) => command.name()).join(" "));
}

/** Names of earlier builds. */
const renamed = new Map([
  ["--context", "--server"],
  ...["list", "use", "add", "remove"].map((name) => [`context ${name}`, `flowgate server ${name}`] as const),
]);

/** Suggests the commands or flags that begin with an unknown one. commander knows only similar ones of about the same length. */
function suggestBeginning(problem: string, path: readonly Command[]): string | undefined {
  const [, kind, word = ""] = /^unknown (command|option) '(.+)'$/.exec(problem) ?? [];
  const now = renamed.get(kind === "command" ? `${path.at(-1)?.name()} ${word}` : word);
  if (now !== undefined) {
    return ` It is ${now} now.`;
  }
  const names =
    kind === "command"
      ? path.slice(-1).flatMap((command) => command.commands.flatMap((each) => [each.name(), ...each.aliases()]))
      : path.flatMap((command) => command.options.flatMap(({ long }) => long ?? []));
  const found = word.replace(/^-+/, "") === "" ? [] : names.filter((name) => name.startsWith(word));
  if (found.length === 0) {
    return undefined;
  }
  return ` Did you mean ${found.length === 1 ? "" : "one of "}${found.join(", ")}?`;
}

/** The commands that the words name, from the root, such as `flowgate`, `audit` and `verify`. */
function findPath(root: Command, words: readonly string[]): Command[] {
  const path = [root];
  for (const word of words) {
    const found = path.at(-1)?.commands.find((each) => each.name() === word || each.aliases().includes(word));
    if (found !== undefined) {
      path.push(found);
    }
  }
  return path;
}

/**
 * Keeps errors of stdout and stderr from ending the process, whose command may be deploying. A reader that closes its pipe early,
 * such as `head`, is no failure; a full disk is one, which the exit code reports.
 */
function handleOutputErrors(): void {
  const { stdout, stderr } = process;
  stderr.on("error", () => {});
  stdout.on("error", ({ code, message }: NodeJS.ErrnoException) => {
    if (code !== "EPIPE") {
      stderr.write(`flowgate: stdout cannot be written: ${message}\n`);
      process.once("exit", () => (process.exitCode ||= 1));
    }
  });
}
