import { hash, randomBytes } from "node:crypto";
import { readFileSync, readdirSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { getAsset, getRawAsset } from "node:sea";
import { zstdDecompressSync } from "node:zlib";
import { makeDirectory } from "../make-directory.ts";

/** One file of those that the executable holds. */
export type PackedFile = {
  /** Relative, with slashes. */
  readonly path: string;
  /** Its bytes within the asset `files`, once that is decompressed. */
  readonly start: number;
  readonly end: number;
  /** In hexadecimal. */
  readonly sha256: string;
};

/**
 * Puts the files that this executable holds into the data directory, and returns their folder.
 *
 * Those that are there are checked, and written anew where they differ: what is loaded is what the executable
 * holds, whatever a power cut or a full disk has left of an earlier start.
 */
export function unpackProgram(dataDir: string): string {
  const list = getAsset("files.json", "utf8");
  const folder = join(dataDir, "program", hash("sha256", list));
  makeDirectory(folder);
  const files = JSON.parse(list) as PackedFile[];
  const missing = files.filter(({ path, sha256 }) => hashOf(join(folder, path)) !== sha256);
  if (missing.length > 0) {
    const packed = zstdDecompressSync(getRawAsset("files"));
    for (const { path, start, end } of missing) {
      write(join(folder, path), packed.subarray(start, end));
    }
  }
  // Node's permission model compares real paths.
  return realpathSync(folder);
}

/** Removes what other versions have unpacked. */
export function removeOtherPrograms(folder: string): void {
  const programs = dirname(folder);
  for (const name of readdirSync(programs)) {
    if (name !== basename(folder)) {
      rmSync(join(programs, name), { recursive: true, force: true });
    }
  }
}

function hashOf(path: string): string | undefined {
  try {
    return hash("sha256", readFileSync(path));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") {
      return undefined;
    }
    throw error;
  }
}

function write(path: string, content: Uint8Array): void {
  makeDirectory(dirname(path));
  // Another start may be reading it, or writing the same.
  const draft = `${path}.${randomBytes(8).toString("hex")}`;
  writeFileSync(draft, content, { flag: "wx", mode: 0o600 });
  renameSync(draft, path);
}
