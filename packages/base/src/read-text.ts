import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { isScarcity } from "./error-code.ts";

/** Reads a file that a module has. Undefined if there is none, or it is larger than `maxBytes`. Rejects if the system lacks resources. */
export async function readText(path: string, maxBytes: number): Promise<string | undefined> {
  try {
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stat = await file.stat();
    return stat.isFile() && stat.size <= maxBytes ? await file.readFile("utf8") : undefined;
  } catch (error) {
    return nothingUnlessScarce(error);
  }
}

/** For files that can't be read, which are left out. Throws if they can be read later. */
export function nothingUnlessScarce(error: unknown): undefined {
  if (isScarcity(error)) {
    throw error;
  }
}
