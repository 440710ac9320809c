import { open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { hasCode } from "@flowgate/base/error-code";

/** Writing to the disk keeps a thread waiting, of which a process has four by default. */
const concurrency = 2;

/** Resolves when the files and folders of a folder are on the disk, so that no loss of power takes a part of them. */
export async function syncTree(folder: string): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries
    .filter((entry) => entry.isFile() || entry.isDirectory())
    .map(({ parentPath, name }) => join(parentPath, name))
    .values();
  const work = async (): Promise<void> => {
    for (const path of paths) {
      await syncPath(path);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
  await syncPath(folder);
}

/** Resolves when a file, or the names in a folder, are on the disk. */
export async function syncPath(path: string): Promise<void> {
  await using file = await open(path);
  await file.sync().catch((error: unknown) => {
    // Some file systems can't do it for folders.
    if (!hasCode(error, "EINVAL")) {
      throw error;
    }
  });
}
