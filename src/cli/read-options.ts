import {
  type Options,
  OptionsError,
  type OptionsInput,
  type OptionsProblem,
  formatOptionPath,
  parseOptions,
} from "../options/parse.ts";
import type { Flags } from "./arguments.ts";
import { type ConfigFile, readConfigFile } from "./config-file.ts";
import { CliFailure } from "./failure.ts";
import { nearest } from "./nearest.ts";
import { readSetting, settings } from "./settings.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** An option as a flag or a variable gives it, and by which name. */
type Given = { readonly path: readonly string[]; readonly value: string | number; readonly origin: string };

/**
 * Flags win over the environment, the environment over the configuration file, and what none of them
 * says has its default. Throws a CliFailure that names where each wrong value comes from.
 */
export async function readOptions(flags: Flags, environment: Environment): Promise<Options> {
  const configPath = flags.get("config") ?? (environment["FLOWGATE_CONFIG"] || undefined);
  const file = configPath === undefined ? undefined : await readConfigFile(configPath);
  const given = settings.flatMap((setting): Given[] => {
    const { flag, variable, path } = setting;
    const fromFlag = flags.get(flag);
    const text = fromFlag ?? (environment[variable] || undefined);
    return text === undefined
      ? []
      : [{ path, value: readSetting(setting, text), origin: fromFlag === undefined ? variable : `--${flag}` }];
  });
  try {
    return parseOptions(given.reduce(assign, file?.content ?? {}) as OptionsInput);
  } catch (error) {
    if (error instanceof OptionsError) {
      throw new CliFailure(error.problems.map((problem) => describeProblem(problem, given, file)).join("\n"));
    }
    throw error;
  }
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

function describeProblem(problem: OptionsProblem, given: readonly Given[], file: ConfigFile | undefined): string {
  const { path, message, knownKeys = [] } = problem;
  const name = formatOptionPath(path);
  const origin = given.find((one) => formatOptionPath(one.path) === name)?.origin;
  if (origin !== undefined) {
    return `${origin}: ${message}`;
  }
  const near = nearest(String(path.at(-1) ?? ""), knownKeys);
  const hint = near === undefined ? "" : `; did you mean ${near}?`;
  return file === undefined ? `${name}: ${message}` : `${file.path}:${file.lineOf(path)}: ${name}: ${message}${hint}`;
}
