import type { Command, OptionValues } from "commander";
import { commandPath, usageFailure } from "../failure.ts";

/** The options that flags and environment variables can set, besides the configuration file. */
export const settings = [
  {
    flag: "host",
    variable: "FLOWGATE_HOST",
    path: ["host"],
    kind: "text",
    hint: "address",
    help: "listen on this address",
  },
  {
    flag: "port",
    variable: "FLOWGATE_PORT",
    path: ["port"],
    kind: "number",
    hint: "number",
    help: "listen on this port; 0 takes a free one",
  },
  {
    flag: "data-dir",
    variable: "FLOWGATE_DATA_DIR",
    path: ["dataDir"],
    kind: "text",
    hint: "path",
    help: "the directory of the store, its key and the runtime's files",
  },
  {
    flag: "store",
    variable: "FLOWGATE_STORE",
    path: ["store"],
    kind: "text",
    hint: "url",
    help: "the URL of the store, such as sqlite:/path/to/file.db",
  },
  {
    flag: "runtime-port",
    variable: "FLOWGATE_RUNTIME_PORT",
    path: ["runtime", "port"],
    kind: "number",
    hint: "number",
    help: "the port of the flows' own HTTP-in nodes",
  },
  {
    flag: "metrics-port",
    variable: "FLOWGATE_METRICS_PORT",
    path: ["metrics", "port"],
    kind: "number",
    hint: "number",
    help: "serve /metrics on this separate port, without a token",
  },
  {
    flag: "tracing-endpoint",
    variable: "FLOWGATE_TRACING_ENDPOINT",
    path: ["tracing", "endpoint"],
    kind: "text",
    hint: "url",
    help: "send traces to this OpenTelemetry collector",
  },
  {
    flag: "drain-delay-ms",
    variable: "FLOWGATE_DRAIN_DELAY_MS",
    path: ["drain", "delayMs"],
    kind: "number",
    hint: "number",
    help: "accept calls for this long after SIGTERM, while health reports not ready",
  },
] as const;

type Setting = (typeof settings)[number];

/** Converts the text of a flag or variable. An invalid number stays a text, and is reported by the validation of the options. */
export function readSetting({ kind }: Setting, text: string): string | number {
  return kind === "number" && /^\d{1,9}$/.test(text) ? Number(text) : text;
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
