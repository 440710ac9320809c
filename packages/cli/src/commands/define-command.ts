import { styleText } from "node:util";
import type { Command } from "commander";
import { withoutServer } from "../client/connection-flags.ts";

/** Command lines, and what each one does. */
type Examples = Readonly<Record<string, string>>;

type Definition = {
  /** In the list of commands: begins in lower case, without a full stop. */
  readonly summary: string;
  /** At the top of the help, in sentences. */
  readonly description: string;
  /** Paragraphs before the examples, after an empty line. */
  readonly details?: string;
  readonly examples: Examples;
  /** False: the command connects to no server. Its help does not show the connection flags, and giving them is an error. */
  readonly connects?: false;
  /** Whether a command that connects to no server has `--output`. The others have it. */
  readonly output?: true;
};

/** Adds a command with its help. Its arguments, flags and action are added to the result. */
export function defineCommand(parent: Command, name: string, definition: Definition): Command {
  const { summary, description, details, connects, output } = definition;
  const command = parent.command(name).summary(summary).description(description);
  const end = examples(definition.examples);
  command.addHelpText("after", details === undefined ? end : `${details}\n${end}`);
  return connects === false ? withoutServer(command, { output: output === true }) : command;
}

/** The examples at the end of a command's help. */
export function examples(lines: Examples): string {
  const width = Math.max(...Object.keys(lines).map((line) => line.length));
  const rows = Object.entries(lines).map(([line, purpose]) => `  ${line.padEnd(width)}  # ${purpose}`);
  return `\n${title("Examples:")}\n${rows.join("\n")}`;
}

/** A heading in the help. */
export function title(text: string): string {
  return styleText("bold", text, { validateStream: false });
}
