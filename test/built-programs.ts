// In place of src/base/program-file.ts and packages/runtime/src/child-program.ts when tests load the sources (vitest.config.ts): threads and processes are started from the
// build, as services are. To load their sources takes a multiple of the time of most tests.
import { dirname, extname } from "node:path";
import { pathToFileURL } from "node:url";
import type { programs } from "../src/base/program-file.ts";
import { mainPath } from "./cli/run-cli.ts";

export const programFolder = dirname(dirname(mainPath));

/** In the folder that the service's common modules are in, see scripts/bundle.ts. */
export const childProgram = pathToFileURL(`${programFolder}/base/child/main${extname(mainPath)}`);

export function programFile(program: (typeof programs)[number]): URL {
  return pathToFileURL(`${programFolder}/${program}${extname(mainPath)}`);
}
