import { hash, randomBytes } from "node:crypto";
import { readFileSync, readdirSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { getAsset, getRawAsset } from "node:sea";
import { zstdDecompressSync } from "node:zlib";
import { makeDirectory } from "../../base/directories.ts";
import { hasCode } from "../../base/error-code.ts";

/** A file contained in the executable. */
export type PackedFile = {
  /** Relative, with slashes. */
  readonly path: string;
  /** Its byte range in the decompressed asset `files`. */
  readonly start: number;
  readonly end: number;
  /** In hexadecimal. */
  readonly sha256: string;
};

/**
 * Unpacks the files of this executable into the data directory, and returns their folder.
 *
 * Existing files are verified by their hash and rewritten if they differ, for example after a power failure or a full
 * disk during an earlier start.
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

/** Removes the unpacked files of other versions. */
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
    if (hasCode(error, "ENOENT")) {
      return undefined;
    }
    throw error;
  }
}

function write(path: string, content: Uint8Array): void {
  makeDirectory(dirname(path));
  // Written atomically, since another process may be reading or writing the same file.
  const temporary = `${path}.${randomBytes(8).toString("hex")}`;
  writeFileSync(temporary, content, { flag: "wx", mode: 0o600 });
  renameSync(temporary, path);
}
