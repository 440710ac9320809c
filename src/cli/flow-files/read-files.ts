import { stat } from "node:fs/promises";
import { readContent } from "./content.ts";
import { FlowFilesFailure } from "./failure.ts";
import type { FlowFiles, FileValue } from "./flow-files.ts";
import { readFolder } from "./folder/read-folder.ts";
import { collectProblems, explainReadError, readFlowFile } from "./read-file.ts";
import { parseSource } from "./source.ts";

/** The path that stands for stdin. */
const stdinPath = "-";

/**
 * Reads files and folders as one configuration, in their order. Throws a FlowFilesFailure with the problems of all of them, and
 * a CliFailure if one can't be read. `readStdin` is called for the path "-".
 */
export async function readFlowFiles(
  paths: readonly string[],
  readStdin: () => Promise<Uint8Array>,
): Promise<FlowFiles> {
  const contents = await collectProblems(paths, async (path) => {
    if (path === stdinPath) {
      return readContent(parseSource("<stdin>", await readStdin()));
    }
    return (await isFolder(path)) ? readFolder(path) : readFlowFile(path);
  });
  return {
    nodes: contents.flatMap(({ nodes }) => nodes),
    rev: onlyOne(
      "rev",
      contents.map(({ rev }) => rev),
    ),
    credentials: onlyOne(
      "credentials",
      contents.map(({ credentials }) => credentials),
    ),
  };
}

function onlyOne(name: string, found: readonly (FileValue | undefined)[]): FileValue | undefined {
  const [first, second] = found.filter((value) => value !== undefined);
  if (first !== undefined && second !== undefined) {
    const message = `${name}: only one file may have it, and ${first.source.file} has it too`;
    throw new FlowFilesFailure([{ file: second.source.file, ...second.source.positionOf(second.path), message }]);
  }
  return first;
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (error) {
    throw explainReadError(error, path);
  }
}
