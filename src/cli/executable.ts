// The entry point of the single-file executable, which scripts/build-executable.ts builds.
import { hash, randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { getAsset, getRawAsset } from "node:sea";
import { zstdDecompressSync } from "node:zlib";
import type * as gateway from "../app/gateway.ts";
import { makeDirectory } from "../base/directories.ts";
import { launchArgument } from "../runtime/sandbox.ts";
import type * as migrating from "../store/migrate.ts";
import type * as storing from "../store/open-store.ts";
import { runCommandLine } from "./run.ts";
import type * as copying from "./service/copy-store.ts";

const [, , firstArgument, program] = process.argv;
if (firstArgument === launchArgument && program !== undefined && isConfined()) {
  load(program);
} else {
  await runCommandLine({
    version: () => (JSON.parse(getAsset("package.json", "utf8")) as { version: string }).version,
    async openGateway(options) {
      const folder = unpackProgram(options.dataDir);
      const { openGateway } = load(join(folder, "dist/src/app/gateway.js")) as typeof gateway;
      const opened = await openGateway(options);
      // Only now is the data directory locked, so that no other service runs from one of these folders.
      removeOtherPrograms(folder);
      return opened;
    },
    copyStore: (...copy) =>
      withModule("cli/service/copy-store.js", (module) => (module as typeof copying).copyStore(...copy)),
    migrateStore: (...migration) =>
      withModule("store/migrate.js", (module) => (module as typeof migrating).migrateStore(...migration)),
    verifyAudit: (...verify) =>
      withModule("store/open-store.js", (module) => (module as typeof storing).verifyAudit(...verify)),
    exit: (code) => process.exit(code),
  });
}

/** Whether Node's permission model is active. Without it, the runtime program must not be loaded. */
function isConfined(): boolean {
  return (process.permission as NodeJS.ProcessPermission | undefined) !== undefined;
}

/** Unpacks the program temporarily, and not in the data directory, which may belong to another user. */
async function withModule<T>(path: string, use: (module: unknown) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "flowgate-"));
  try {
    return await use(load(join(unpackProgram(folder), "dist/src", path)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** In a single-file executable, `import` can't load files from the disk. */
function load(path: string): unknown {
  return createRequire(path)(path);
}

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
function unpackProgram(dataDir: string): string {
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
function removeOtherPrograms(folder: string): void {
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
  // Written atomically, since another process may be reading or writing the same file.
  const temporary = `${path}.${randomBytes(8).toString("hex")}`;
  writeFileSync(temporary, content, { flag: "wx", mode: 0o600 });
  renameSync(temporary, path);
}
