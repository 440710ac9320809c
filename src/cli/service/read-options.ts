import type { Options } from "../../options/parse.ts";
import type { Flags } from "./flags.ts";
import { type Environment, dataDirOf, readInput } from "./read-input.ts";

/**
 * Reads the complete options from flags, environment and configuration file. Throws a CliFailure with all problems and
 * their sources.
 *
 * `beforeLoad` is called with the data directory before the options schema is loaded. `storeFlag` is the flag that sets the
 * store.
 */
export async function readOptions(
  flags: Flags,
  environment: Environment,
  beforeLoad: (dataDir: string) => void = () => {},
  storeFlag?: string,
): Promise<Options> {
  const input = await readInput(flags, environment, storeFlag);
  const dataDir = dataDirOf(input);
  if (dataDir !== undefined) {
    beforeLoad(dataDir);
  }
  const { checkInput } = await import("./check-input.ts");
  return checkInput(input);
}
