import { type Options, OptionsError, type OptionsProblem, formatOptionPath, parseOptions } from "../options/parse.ts";
import { CliFailure } from "./failure.ts";
import { closestMatch } from "./closest-match.ts";
import type { Input } from "./read-input.ts";

/** What was not given has its default. Throws a CliFailure that names where each wrong value comes from. */
export function checkInput(input: Input): Options {
  try {
    return parseOptions(input.content);
  } catch (error) {
    if (error instanceof OptionsError) {
      throw new CliFailure(error.problems.map((problem) => describeProblem(problem, input)).join("\n"));
    }
    throw error;
  }
}

function describeProblem(problem: OptionsProblem, { given, file }: Input): string {
  const { path, message, knownKeys = [] } = problem;
  const name = formatOptionPath(path);
  const origin = given.find((one) => formatOptionPath(one.path) === name)?.origin;
  if (origin !== undefined) {
    return `${origin}: ${message}`;
  }
  const near = closestMatch(String(path.at(-1) ?? ""), knownKeys);
  const hint = near === undefined ? "" : `; did you mean ${near}?`;
  return file === undefined ? `${name}: ${message}` : `${file.path}:${file.lineOf(path)}: ${name}: ${message}${hint}`;
}
