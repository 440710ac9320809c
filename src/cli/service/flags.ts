import type { Command, OptionValues } from "commander";
import { commandPath } from "../command-path.ts";
import { usageFailure } from "../failure.ts";
import { settings } from "./settings.ts";

/** The values of a command's flags by their names, without `--`. */
export type Flags = ReadonlyMap<string, string>;

/** Adds --config and the flags of these settings. */
export function addSettings(command: Command, names: readonly string[] = settings.map(({ flag }) => flag)): Command {
  command.option("--config <path>", "configuration file, YAML (env: FLOWGATE_CONFIG)");
  for (const { flag, hint, help, variable } of settings) {
    if (names.includes(flag)) {
      command.option(`--${flag} <${hint}>`, `${help} (env: ${variable})`);
    }
  }
  return command;
}

/** The flags that were given to a command. */
export function readFlags(command: Command): Flags {
  const values: OptionValues = command.opts();
  return new Map(
    command.options.flatMap((option): [string, string][] => {
      const value: unknown = values[option.attributeName()];
      if (value === "") {
        throw usageFailure(`${option.long ?? option.flags} requires a value.`, commandPath(command));
      }
      return typeof value === "string" ? [[option.name(), value]] : [];
    }),
  );
}
