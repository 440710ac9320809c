import { defaultDataDir } from "../../options/data-dir.ts";
import type { Flags } from "./flags.ts";
import type { ConfigFile } from "../config-file.ts";
import { readSetting, settings } from "./settings.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** An option set by a flag or a variable; `origin` is its name. */
type Override = { readonly path: readonly string[]; readonly value: string | number; readonly origin: string };

/** Options without validation and defaults, and where they come from. */
export type Input = {
  readonly content: Readonly<Record<string, unknown>>;
  readonly overrides: readonly Override[];
  readonly file: ConfigFile | undefined;
};

/**
 * Merges flags, environment and configuration file, in this order of precedence. Throws a CliFailure if the file can't be
 * read. `storeFlag` is the flag that sets the store.
 */
export async function readInput(flags: Flags, environment: Environment, storeFlag = "store"): Promise<Input> {
  const configPath = configPathOf(flags, environment);
  const configOrigin = flags.has("config") ? "--config" : "FLOWGATE_CONFIG";
  const file = configPath === undefined ? undefined : await readFile(configPath, configOrigin);
  const overrides = settings.flatMap((setting): Override[] => {
    const { variable, path } = setting;
    const flag = setting.flag === "store" ? storeFlag : setting.flag;
    const fromFlag = flags.get(flag);
    const text = fromFlag ?? (environment[variable] || undefined);
    return text === undefined
      ? []
      : [{ path, value: readSetting(setting, text), origin: fromFlag === undefined ? variable : `--${flag}` }];
  });
  return { content: overrides.reduce(assign, file?.content ?? {}), overrides, file };
}

/** The path of the configuration file; undefined: there is none. */
export function configPathOf(flags: Flags, environment: Environment): string | undefined {
  return flags.get("config") ?? (environment["FLOWGATE_CONFIG"] || undefined);
}

/** The data directory of the input or its default; undefined: the value is invalid. */
export function dataDirOf({ content: { dataDir = defaultDataDir } }: Input): string | undefined {
  return typeof dataDir === "string" && dataDir !== "" ? dataDir : undefined;
}

async function readFile(path: string, origin: string): Promise<ConfigFile> {
  // Loads the YAML parser only if there is a file.
  const { readConfigFile } = await import("../config-file.ts");
  return readConfigFile(path, origin);
}

function assign(
  content: Readonly<Record<string, unknown>>,
  { path, value }: Pick<Override, "path" | "value">,
): Record<string, unknown> {
  const [key = "", ...innerPath] = path;
  if (innerPath.length === 0) {
    return { ...content, [key]: value };
  }
  const inner = content[key] ?? {};
  // A value in the file that is not an object stays as it is, and is reported by the validation of the options.
  return typeof inner === "object" && !Array.isArray(inner)
    ? { ...content, [key]: assign(inner as Record<string, unknown>, { path: innerPath, value }) }
    : { ...content };
}
