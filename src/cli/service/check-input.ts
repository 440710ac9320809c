import {
  type Options,
  OptionsError,
  type OptionsProblem,
  formatOptionPath,
  parseOptions,
} from "../../options/parse.ts";
import { CliFailure } from "../failure.ts";
import { closestMatch } from "./closest-match.ts";
import type { Input } from "./read-input.ts";

/** Validates the input and fills in defaults. Throws a CliFailure that names the source of each invalid value. */
export function checkInput(input: Input): Options {
  try {
    return parseOptions(input.content);
  } catch (error) {
    if (error instanceof OptionsError) {
      const message = error.problems.map((problem) => describeProblem(problem, input)).join("\n");
      throw new CliFailure(message, { cause: error });
    }
    throw error;
  }
}

function describeProblem(problem: OptionsProblem, { overrides, file }: Input): string {
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
