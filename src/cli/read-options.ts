import type { Options } from "../options/parse.ts";
import type { Flags } from "./arguments.ts";
import { type Environment, dataDirOf, readInput } from "./read-input.ts";

/**
 * The complete options, from flags, environment and configuration file. Throws a CliFailure that says what is wrong where.
 *
 * `loading` is called with the data directory before the schema of all options is loaded.
 */
export async function readOptions(
  flags: Flags,
  environment: Environment,
  loading: (dataDir: string) => void = () => {},
): Promise<Options> {
  const input = await readInput(flags, environment);
  const dataDir = dataDirOf(input);
  if (dataDir !== undefined) loading(dataDir);
  const { checkInput } = await import("./check-input.ts");
  return checkInput(input);
}
