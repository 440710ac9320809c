import type { Command } from "commander";

/** The words that name a command, such as `flowgate audit verify`. */
export function commandPath(command: Command): string {
  return command.parent === null ? command.name() : `${commandPath(command.parent)} ${command.name()}`;
}
