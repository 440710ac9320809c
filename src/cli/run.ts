import { type Command, CommanderError } from "commander";
import { createCommandLine } from "./command-line.ts";
import { CliFailure, usageFailure } from "./failure.ts";
import { handleOutputErrors } from "./output/output-errors.ts";
import { printableLines } from "./output/printable.ts";
import type { Program } from "./service/program.ts";

/** Runs the command of the command line. Reports failures on stderr and by the exit code. */
export async function runCommandLine(program: Program): Promise<void> {
  handleOutputErrors();
  try {
    await run(createCommandLine(program), process.argv.slice(2));
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

async function run(commandLine: Command, argv: readonly string[]): Promise<void> {
  let words = argv;
  try {
    const { operands, unknown } = commandLine.parseOptions([...argv]);
    const isBare = operands.length === 0 && !unknown.some((flag) => flag === "--help" || flag === "-h");
    if (isBare) {
      assertNoCommand(commandLine, unknown);
      words = ["serve", ...argv];
    }
    await commandLine.parseAsync([...words], { from: "user" });
  } catch (error) {
    if (error instanceof CommanderError) {
      end(error, pathOf(commandLine, words));
    } else {
      throw error;
    }
  }
}

/** Flags without a command are those of `serve`. */
function assertNoCommand(commandLine: Command, words: readonly string[]): void {
  const position = words.findIndex((word, index) => !(words[index - 1] ?? "").startsWith("--") && isCommand(word));
  const command = words[position];
  if (command !== undefined) {
    const flags = words.slice(0, position).join(" ");
    throw usageFailure(
      `Write the flags of a command after its name: flowgate ${command} ${flags}`,
      `flowgate ${command}`,
    );
  }

  function isCommand(word: string): boolean {
    return commandLine.commands.some((each) => each.name() === word || each.aliases().includes(word));
  }
}

/** Help and versions, which commander has printed, are no failures. */
function end({ exitCode, code, message }: CommanderError, command: string): void {
  if (exitCode === 0) return;
  // A group of commands without a command: commander has printed its help.
  if (code === "commander.help") throw new CliFailure("");
  const [first = "", ...rest] = message.replace(/^error: /, "").split("\n");
  const hints = rest.map((line) => ` ${line.replace(/^\((.*)\)$/, "$1")}`);
  const problem = `${first.charAt(0).toUpperCase()}${first.slice(1)}`.replace(/\.?$/, ".");
  throw usageFailure(`${problem}${hints.join("")}`, command);
}

/** The path of the command that the words name, such as `flowgate audit verify`. */
function pathOf(root: Command, words: readonly string[]): string {
  let command = root;
  const path = [root.name()];
  for (const word of words) {
    const found = command.commands.find((each) => each.name() === word || each.aliases().includes(word));
    if (found === undefined) continue;
    command = found;
    path.push(found.name());
  }
  return path.join(" ");
}
