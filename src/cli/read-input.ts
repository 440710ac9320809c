import { defaultDataDir } from "../options/data-dir.ts";
import type { Flags } from "./arguments.ts";
import type { ConfigFile } from "./config-file.ts";
import { readSetting, settings } from "./settings.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** An option as a flag or a variable gives it, and by which name. */
type Given = { readonly path: readonly string[]; readonly value: string | number; readonly origin: string };

/** Options as they were given, unchecked and without defaults, and where they come from. */
export type Input = {
  readonly content: Readonly<Record<string, unknown>>;
  readonly given: readonly Given[];
  readonly file: ConfigFile | undefined;
};

/** Flags win over the environment, the environment over the configuration file. Throws a CliFailure where that can't be read. */
export async function readInput(flags: Flags, environment: Environment): Promise<Input> {
  const fromFlag = flags.get("config");
  const configPath = fromFlag ?? (environment["FLOWGATE_CONFIG"] || undefined);
  const configOrigin = fromFlag === undefined ? "FLOWGATE_CONFIG" : "--config";
  const file = configPath === undefined ? undefined : await readFile(configPath, configOrigin);
  const given = settings.flatMap((setting): Given[] => {
    const { flag, variable, path } = setting;
    const fromFlag = flags.get(flag);
    const text = fromFlag ?? (environment[variable] || undefined);
    return text === undefined
      ? []
      : [{ path, value: readSetting(setting, text), origin: fromFlag === undefined ? variable : `--${flag}` }];
  });
  return { content: given.reduce(assign, file?.content ?? {}), given, file };
}

/** The data directory that the input asks for, if what it asks for can be one. */
export function dataDirOf({ content: { dataDir = defaultDataDir } }: Input): string | undefined {
  return typeof dataDir === "string" && dataDir !== "" ? dataDir : undefined;
}

async function readFile(path: string, origin: string): Promise<ConfigFile> {
  // With its YAML parser, which is of no use where there is no file.
  const { readConfigFile } = await import("./config-file.ts");
  return readConfigFile(path, origin);
}

function assign(
  content: Readonly<Record<string, unknown>>,
  { path, value }: Pick<Given, "path" | "value">,
): Record<string, unknown> {
  const [key = "", ...rest] = path;
  if (rest.length === 0) {
    return { ...content, [key]: value };
  }
  const inner = content[key] ?? {};
  // What is no object in the file stays as it is: that it is wrong is for the options to say.
  return typeof inner === "object" && !Array.isArray(inner)
    ? { ...content, [key]: assign(inner as Record<string, unknown>, { path: rest, value }) }
    : { ...content };
}
