import { open } from "node:fs/promises";

/** Reads a file that a module has. Undefined if there is none, or it is larger than `maxBytes`. */
export async function readText(path: string, maxBytes: number): Promise<string | undefined> {
  try {
    await using file = await open(path);
    const stat = await file.stat();
    return stat.isFile() && stat.size <= maxBytes ? await file.readFile("utf8") : undefined;
  } catch {
    return undefined;
  }
}
