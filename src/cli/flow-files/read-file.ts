import { readFile } from "node:fs/promises";
import { CliFailure } from "../failure.ts";
import { readContent } from "./content.ts";
import { type FileProblem, FlowFilesFailure } from "./failure.ts";
import type { FlowFiles } from "./flow-files.ts";
import { parseSource } from "./source.ts";

export async function readFlowFile(path: string): Promise<FlowFiles> {
  return readContent(parseSource(path, await readBytes(path)));
}

/** Applies a function to all items. Throws one FlowFilesFailure with the problems of all calls. */
export async function collectProblems<T, R>(items: readonly T[], read: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const problems: FileProblem[] = [];
  for (const item of items) {
    try {
      results.push(await read(item));
    } catch (error) {
      if (!(error instanceof FlowFilesFailure)) {
        throw error;
      }
      problems.push(...error.problems);
    }
  }
  if (problems.length > 0) {
    throw new FlowFilesFailure(problems);
  }
  return results;
}

async function readBytes(path: string): Promise<Uint8Array> {
  try {
    return await readFile(path);
  } catch (error) {
    throw explainReadError(error, path);
  }
}

export function explainReadError(error: unknown, path: string): unknown {
  if (!(error instanceof Error && "code" in error)) {
    return error;
  }
  switch (error.code) {
    case "ENOENT":
      return new CliFailure(`${path}: there is no such file or folder: correct the path`);
    case "EACCES":
      return new CliFailure(`${path}: this user may not read it: change its permissions`);
    case "ENOTDIR":
      return new CliFailure(`${path}: a part of this path is a file: specify a folder`);
    case "EISDIR":
      return new CliFailure(`${path}: is a folder, but a file is required: specify a file, or rename the folder`);
    default:
      return new CliFailure(`${path}: can't be read (${String(error.code)})`);
  }
}
