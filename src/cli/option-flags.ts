import type { Command, OptionValues } from "commander";
import { UsageFailure } from "@flowgate/cli";

type Setting = {
  readonly flag: string;
  readonly variable: string;
  readonly path: readonly string[];
  /** A placeholder for the value in `--help`. */
  readonly hint: "address" | "mode" | "number" | "path" | "url";
  readonly help: string;
};

/** The options that flags and environment variables can set, besides the configuration file. */
export const settings: readonly Setting[] = [
  setting("host", ["host"], "address", "listen on this address"),
  setting("port", ["port"], "number", "listen on this port; 0 takes a free one"),
  setting("data-dir", ["dataDir"], "path", "the directory of the store, its key and the runtime's files"),
  setting("store", ["store"], "url", "the URL of the store, such as sqlite:/path/to/file.db"),
  setting("runtime-port", ["runtime", "port"], "number", "the port of the flows' own HTTP-in nodes"),
  setting("node-red-port", ["nodeRed", "port"], "number", "serve Node-RED's admin API, for its tools, on this port"),
  setting(
    "editor",
    ["nodeRed", "editor"],
    "mode",
    "serve Node-RED's editor; read-only: nothing can be changed with it",
  ),
  setting("metrics-port", ["metrics", "port"], "number", "serve /metrics on this separate port, without a token"),
  setting("tracing-endpoint", ["tracing", "endpoint"], "url", "send traces to this OpenTelemetry collector"),
  setting(
    "drain-delay-ms",
    ["drain", "delayMs"],
    "number",
    "accept calls for this long after SIGTERM, while health reports not ready",
  ),
];

function setting(flag: string, path: Setting["path"], hint: Setting["hint"], help: string): Setting {
  return { flag, variable: `FLOWGATE_${flag.toUpperCase().replaceAll("-", "_")}`, path, hint, help };
}

/** Converts the text of a flag or variable. An invalid number stays a text, and is reported by the validation of the options. */
export function readSetting({ hint }: Setting, text: string): string | number | boolean {
  if (hint === "mode" && (text === "true" || text === "false")) {
    return text === "true";
  }
  return hint === "number" && /^\d{1,9}$/.test(text) ? Number(text) : text;
}

/** The values of a command's flags by their names, without `--`. */
export type Flags = ReadonlyMap<string, string>;

/** The settings of commands that open the store only. */
export const storeSettings = ["data-dir", "store"];

/** Adds --config and the flags of these settings. */
export function addSettings(command: Command, names: readonly string[] = settings.map(({ flag }) => flag)): Command {
  command.option("--config <path>", "configuration file, YAML (env: FLOWGATE_CONFIG)");
  for (const { flag, hint, help, variable } of settings) {
    if (names.includes(flag)) {
      // A mode is true if it is not named.
      const value = hint === "mode" ? `[${hint}]` : `<${hint}>`;
      command.option(`--${flag} ${value}`, `${help} (env: ${variable})`);
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
        throw new UsageFailure(`${option.long ?? option.flags} requires a value.`);
      }
      const isMode = value === true && settings.some(({ flag, hint }) => flag === option.name() && hint === "mode");
      return typeof value === "string" || isMode ? [[option.name(), String(value)]] : [];
    }),
  );
}
