import { defaultDataDir } from "../options/data-dir.ts";
import type { Options, OptionsProblem } from "../options/parse.ts";
import type { ConfigFile } from "@flowgate/cli/config-file";
import { CliFailure } from "@flowgate/cli";
import { type Flags, readSetting, settings } from "./option-flags.ts";

/**
 * Reads the complete options from flags, environment and configuration file. Throws a CliFailure with all problems and
 * their sources.
 *
 * `beforeLoad` is called with the data directory before the options schema is loaded. `storeFlag` is the flag that sets the
 * store, `store` by default.
 */
export async function readOptions(
  flags: Flags,
  environment: Environment,
  {
    beforeLoad,
    storeFlag = "store",
  }: { readonly beforeLoad?: (dataDir: string) => void; readonly storeFlag?: string } = {},
): Promise<Options> {
  const input = await readInput(flags, environment, storeFlag);
  const { dataDir = defaultDataDir } = input.content;
  if (typeof dataDir === "string" && dataDir !== "") {
    beforeLoad?.(dataDir);
  }
  return checkInput(input);
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** An option set by a flag or a variable; `origin` is its name. */
type Override = {
  readonly path: readonly string[];
  readonly value: string | number | boolean;
  readonly origin: string;
};

/** Options without validation and defaults, and where they come from. */
type Input = {
  readonly content: Readonly<Record<string, unknown>>;
  readonly overrides: readonly Override[];
  readonly file: ConfigFile | undefined;
};

/** Merges flags, environment and configuration file, in this order of precedence. Throws a CliFailure if the file can't be read. */
async function readInput(flags: Flags, environment: Environment, storeFlag: string): Promise<Input> {
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

async function readFile(path: string, origin: string): Promise<ConfigFile> {
  // Loads the YAML parser only if there is a file.
  const { readConfigFile } = await import("@flowgate/cli/config-file");
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

/** Validates the input and fills in defaults. Throws a CliFailure that names the source of each invalid value. */
async function checkInput(input: Input): Promise<Options> {
  const { formatOptionPath, OptionsError, parseOptions } = await import("../options/parse.ts");
  try {
    return parseOptions(input.content);
  } catch (error) {
    if (error instanceof OptionsError) {
      const message = error.problems.map((problem) => describeProblem(problem, formatOptionPath, input)).join("\n");
      throw new CliFailure(message, { cause: error });
    }
    throw error;
  }
}

function describeProblem(
  problem: OptionsProblem,
  formatOptionPath: (path: OptionsProblem["path"]) => string,
  { overrides, file }: Input,
): string {
  const { path, message, knownKeys = [] } = problem;
  const name = formatOptionPath(path);
  const origin = overrides.find((override) => formatOptionPath(override.path) === name)?.origin;
  if (origin !== undefined) {
    return `${origin}: ${message}`;
  }
  const near = closestMatch(String(path.at(-1) ?? ""), knownKeys);
  const hint = near === undefined ? "" : `; did you mean ${near}?`;
  return file === undefined ? `${name}: ${message}` : `${file.path}:${file.lineOf(path)}: ${name}: ${message}${hint}`;
}

/** Returns the word most similar to the given one, or one that begins with it; undefined: none is similar enough. */
export function closestMatch(word: string, words: readonly string[]): string | undefined {
  const [best] = words
    .map((candidate) => ({ candidate, edits: distance(word.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ candidate, edits }) => edits <= Math.min(3, Math.floor(candidate.length / 2)))
    .toSorted((a, b) => a.edits - b.edits);
  return best?.candidate ?? (word.length < 4 ? undefined : words.find((candidate) => candidate.startsWith(word)));
}

/** The Levenshtein distance: the number of characters to be inserted, deleted or replaced. */
function distance(from: string, to: string): number {
  // Skips the computation for a much longer word, which can't be similar.
  if (Math.abs(from.length - to.length) > to.length) {
    return Number.POSITIVE_INFINITY;
  }
  let row = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (const [line, character] of from.split("").entries()) {
    const next = [line + 1];
    for (let at = 0; at < to.length; at += 1) {
      const replaced = (row[at] ?? 0) + (character === to[at] ? 0 : 1);
      next.push(Math.min(replaced, (row[at + 1] ?? 0) + 1, (next[at] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
