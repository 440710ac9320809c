import { styleText } from "node:util";
import type { Command } from "commander";
import { withoutServer } from "./client/connection-flags.ts";

/** The end of a command's help. */
type HelpEnd = {
  /** Paragraphs before the examples, after an empty line. */
  readonly details?: string;
  /** Command lines, and what each one does. */
  readonly examples: Readonly<Record<string, string>>;
};

type Definition = HelpEnd & {
  /** In the list of commands: begins in lower case, without a full stop. */
  readonly summary: string;
  /** At the top of the help, in sentences. */
  readonly description: string;
  /** False: the command connects to no server. Its help does not show the connection flags, and giving them is an error. */
  readonly connects?: false;
  /** True if a command that connects to no server has `--output`. The others have it. */
  readonly output?: true;
};

/** Adds a command with its help. Its arguments, flags and action are added to the result. */
export function defineCommand(parent: Command, name: string, definition: Definition): Command {
  const { summary, description, connects, output } = definition;
  const command = parent.command(name).summary(summary).description(description);
  addHelp(command, definition);
  return connects === false ? withoutServer(command, { output: output === true }) : command;
}

const helpEnds = new WeakMap<Command, HelpEnd>();

/** Adds to the end of a command's help. */
export function addHelp(command: Command, { details = "", examples }: HelpEnd): void {
  const before = helpEnds.get(command);
  helpEnds.set(command, {
    details: `${before?.details ?? ""}${details}`,
    examples: { ...before?.examples, ...examples },
  });
  if (before === undefined) {
    command.addHelpText("after", () => formatHelpEnd(helpEnds.get(command) ?? { examples }));
  }
}

function formatHelpEnd({ details = "", examples }: HelpEnd): string {
  const width = Math.max(...Object.keys(examples).map((line) => line.length));
  const rows = Object.entries(examples).map(([line, purpose]) => `  ${line.padEnd(width)}  # ${purpose}`);
  return `${details}${details === "" ? "" : "\n"}\n${title("Examples:")}\n${rows.join("\n")}`;
}

/** A heading in the help. */
export function title(text: string): string {
  return styleText("bold", text, { validateStream: false });
}
