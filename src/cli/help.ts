import { styleText } from "node:util";
import type { Command, HelpConfiguration, OutputConfiguration } from "commander";
import { globalOptionsOf } from "./client/connection-options.ts";

/** Longer lines are hard to read. */
const maxWidth = 110;

/** How the help of all commands looks. Commander removes the styles where there are no colours. */
export const helpConfiguration: HelpConfiguration = {
  showGlobalOptions: true,
  sortOptions: false,
  visibleGlobalOptions: (command: Command) => (command.parent === null ? [] : globalOptionsOf(command)),
  styleTitle: title,
};

export const helpOutput: OutputConfiguration = {
  getOutHelpWidth: () => widthOf(process.stdout),
  getErrHelpWidth: () => widthOf(process.stderr),
};

/** A heading in the help. */
export function title(text: string): string {
  return styleText("bold", text, { validateStream: false });
}

function widthOf(stream: NodeJS.WriteStream): number {
  return stream.isTTY ? Math.min(stream.columns, maxWidth) : 80;
}
