import { randomUUID } from "node:crypto";
import { chmod, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { makeDirectory } from "../../base/directories.ts";
import { CliFailure } from "../failure.ts";
import { readBoundedFile } from "./read-file.ts";

/** Writes a file, and its folder if there is none. Readers see the old content or the new one. Returns false if it has that content. */
export async function writeTextFile(path: string, text: string): Promise<boolean> {
  try {
    const existing = await readIfExists(path);
    if (existing === text) {
      return false;
    }
    makeDirectory(dirname(path), 0o777);
    const temporary = join(dirname(path), `.${randomUUID()}.tmp`);
    try {
      await writeFile(temporary, text, { flag: "wx", flush: true });
      if (existing !== undefined) {
        await chmod(temporary, (await stat(path)).mode & 0o777);
      }
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
    return true;
  } catch (error) {
    throw explainWriteError(error, path);
  }
}

/** Removes a file. */
export async function removeFile(path: string): Promise<void> {
  try {
    await rm(path, { force: true });
  } catch (error) {
    throw explainWriteError(error, path);
  }
}

async function readIfExists(path: string): Promise<string | undefined> {
  try {
    return (await readBoundedFile(path)).toString("utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") {
      return undefined;
    }
    throw error;
  }
}

function explainWriteError(error: unknown, path: string): unknown {
  if (!(error instanceof Error && "code" in error)) {
    return error;
  }
  switch (error.code) {
    case "EACCES":
    case "EPERM":
    case "EROFS":
      return new CliFailure(`${path}: this user may not write it: change the permissions, or choose another place`);
    case "ENOENT":
      return new CliFailure(`${dirname(path)}: can't contain files: choose another place`);
    case "EISDIR":
      return new CliFailure(`${path}: is a folder: remove it, or choose another place`);
    case "ENOTDIR":
    case "EEXIST":
      return new CliFailure(`${path}: a part of this path is a file: remove it, or choose another place`);
    default:
      return new CliFailure(`${path}: can't be written (${String(error.code)})`);
  }
}
