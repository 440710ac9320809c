import { styleText } from "node:util";
import { type Command, Help, type HelpConfiguration, type OutputConfiguration } from "commander";
import { globalOptionsOf } from "./client/connection-flags.ts";

/** Longer lines are hard to read. */
const maxWidth = 110;

/** How the help of all commands looks. Commander removes the styles where there are no colours. */
export const helpConfiguration: HelpConfiguration = {
  showGlobalOptions: true,
  sortOptions: false,
  visibleOptions(this: Help, command: Command) {
    const options = Help.prototype.visibleOptions.call(this, command);
    // Those of the connection are in the help of each command that takes them.
    return command.parent === null ? options.filter((option) => /^--(help|version)$/.test(option.long ?? "")) : options;
  },
  visibleGlobalOptions: (command: Command) => (command.commands.length > 0 ? [] : globalOptionsOf(command)),
  visibleCommands(this: Help, command: Command) {
    const commands = Help.prototype.visibleCommands.call(this, command);
    return command.parent === null ? commands : commands.filter((each) => each.name() !== "help");
  },
  subcommandTerm(this: Help, command: Command) {
    const term = Help.prototype.subcommandTerm.call(this, command);
    return term.replace(/\|\S+/, "").replace(" [options]", "");
  },
  styleTitle: title,
};

export const helpOutput: OutputConfiguration = {
  getOutHelpWidth: () => widthOf(process.stdout),
  getErrHelpWidth: () => widthOf(process.stderr),
};

/** A heading in the help. */
function title(text: string): string {
  return styleText("bold", text, { validateStream: false });
}

function widthOf(stream: NodeJS.WriteStream): number {
  // Some terminals do not report their width.
  return stream.isTTY && stream.columns > 0 ? Math.min(stream.columns, maxWidth) : 80;
}

/** The examples at the end of a command's help: command lines, and what each one does. */
export function examples(...rows: readonly (readonly [line: string, purpose: string])[]): string {
  const width = Math.max(...rows.map(([line]) => line.length));
  return `\n${title("Examples:")}\n${rows.map(([line, purpose]) => `  ${line.padEnd(width)}  # ${purpose}`).join("\n")}`;
}
