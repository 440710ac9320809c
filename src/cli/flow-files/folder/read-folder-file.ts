import { stat } from "node:fs/promises";
import { join } from "node:path";
import { CliFailure } from "../../failure.ts";
import type { FlowFiles } from "../flow-files.ts";
import { explainReadError, readFlowFile } from "../read-file.ts";

/** Reads a file of a folder. Throws a CliFailure for devices and pipes, of which reading may never end. */
export async function readFolderFile(folder: string, name: string): Promise<FlowFiles> {
  const path = join(folder, name);
  const stats = await stat(path).catch((error: unknown) => {
    throw explainReadError(error, path);
  });
  if (!stats.isFile() && !stats.isDirectory()) {
    throw new CliFailure(`${path}: is not a regular file: remove it`);
  }
  return readFlowFile(path);
}
