import { hash, randomUUID } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, realpathSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { resolvePackage } from "@flowgate/base/resolve-package";
import { RuntimeProcess } from "./child-process.ts";
import { isWritable } from "./writable-folders.ts";
import type { CompileCache } from "./launch.ts";
import { readNodeRedVersion } from "./node-red-version.ts";
import { type CompleteOptions, completeOptions, noBoundary } from "./options.ts";
import { hasWildcard } from "./sandbox.ts";

type CacheOptions = Pick<CompleteOptions, "codeCacheDir" | "dir" | "allow" | "maxOldSpaceMb" | "entry" | "launcher">;

/**
 * Creates the folder of the compile caches of the flow runtime in `codeCacheDir`, and returns its real path. Undefined if there can be none:
 * processes then start more slowly. Each process executes what is in a cache, so that flows must not be able to write it.
 */
export function prepareCodeCacheDir({
  codeCacheDir,
  dir,
  allow,
}: Pick<CompleteOptions, "codeCacheDir" | "dir" | "allow">): string | undefined {
  if (codeCacheDir === undefined || !existsSync(codeCacheDir)) {
    return undefined;
  }
  const folder = join(realpathSync(codeCacheDir), "flow-runtime");
  if (hasWildcard(folder) || isWritable(folder, [dir, ...allow.fileSystemWrite])) {
    return undefined;
  }
  try {
    mkdirSync(folder, { recursive: true });
    return folder;
  } catch {
    // A read-only or full disk.
    return undefined;
  }
}

/** The cache of a process with these options, to read; undefined: there is none yet. */
export function findCompileCache(options: CacheOptions): CompileCache | undefined {
  const folder = folderOf(options);
  return folder !== undefined && existsSync(folder) ? { folder, isWritten: false } : undefined;
}

/** The filling of a cache. Disposing ends it. */
export type CacheFilling = AsyncDisposable & {
  /** Resolves when the process has exited and its folder was renamed or removed. Does not reject. */
  readonly ended: Promise<void>;
};

/**
 * Fills the cache of processes with these options, unless it exists: starts the program of the child, which loads all of the flow runtime and
 * gets no flows, no added modules and no folder that flows have written. Node writes the cache when it exits.
 */
export function fillCompileCache(options: CacheOptions): CacheFilling | undefined {
  const folder = folderOf(options);
  if (folder === undefined || existsSync(folder)) {
    return undefined;
  }
  const unfinished = `${folder}.${randomUUID()}`;
  const [cache, dir] = [join(unfinished, "cache"), join(unfinished, "user")];
  try {
    mkdirSync(cache, { recursive: true });
    mkdirSync(dir);
  } catch {
    return undefined;
  }
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  let isLoaded = false;
  const filler = new RuntimeProcess(
    createFillerOptions(options, dir),
    new Map(),
    {
      onMessage({ kind }) {
        if (kind === "ready") {
          isLoaded = true;
          filler.send({ kind: "stop" });
        }
      },
      onFlood() {},
      onExit() {
        try {
          if (isLoaded) {
            share(cache, options.launcher.user);
            renameSync(cache, folder);
          }
        } catch {
          // Another service has filled it, or the disk is full.
        }
        rmSync(unfinished, { recursive: true, force: true });
        resolve();
      },
    },
    { folder: cache, isWritten: true },
  );
  filler.send({ kind: "listen", host: "127.0.0.1", httpPort: 0 });
  return {
    ended,
    async [Symbol.asyncDispose]() {
      filler.kill();
      await ended;
    },
  };
}

function createFillerOptions({ maxOldSpaceMb, entry }: CacheOptions, dir: string): CompleteOptions {
  const options = completeOptions({
    active: () => Promise.reject(new Error("no flows are deployed")),
    dir,
    host: "127.0.0.1",
    port: 0,
    log() {},
    maxOldSpaceMb,
    entry,
  });
  return { ...options, launcher: noBoundary };
}

/** Lets another user read the cache: Node names the folder in it after the user, and creates files for their owner only. */
function share(cache: string, user: number | undefined): void {
  if (user === undefined) {
    return;
  }
  chmodSync(cache, 0o755);
  for (const name of readdirSync(cache)) {
    const shared = join(cache, name.replace(/-\d+$/, `-${user}`));
    renameSync(join(cache, name), shared);
    chmodSync(shared, 0o755);
    readdirSync(shared).forEach((file) => chmodSync(join(shared, file), 0o644));
  }
}

/** Other versions load other files. Node itself rejects code of another version of its own, or compiled with other flags. */
function folderOf({ codeCacheDir, maxOldSpaceMb, entry, launcher }: CacheOptions): string | undefined {
  if (codeCacheDir === undefined) {
    return undefined;
  }
  const flowRuntime = `${resolvePackage("@node-red/runtime", import.meta.url)} ${readNodeRedVersion()}`;
  const key = JSON.stringify([process.version, maxOldSpaceMb, entry.href, flowRuntime, launcher.user]);
  return join(codeCacheDir, hash("sha256", key).slice(0, 16));
}
