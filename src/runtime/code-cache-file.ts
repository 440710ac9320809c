import { hash, randomUUID } from "node:crypto";
import { closeSync, existsSync, fstatSync, fsync, openSync, realpathSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { resolvePackage } from "../base/resolve-package.ts";
import { hasModules, isWritable } from "./folders.ts";
import { readFlowRuntimeVersion } from "./manifest.ts";
import type { CompleteOptions } from "./options.ts";

/**
 * The code cache of one process of the flow runtime (child/code-cache.ts). It is passed as a file descriptor, which the process closes
 * before it runs flows: the next one executes what is in the file, so that flows must not be able to write it.
 */
export type CodeCacheFile = {
  /** Open for reading; open for writing, and empty, if there is no cache yet. */
  readonly fd: number;
  /** Must be called when the process has been started, whether or not that succeeded. */
  spawned(): void;
  /** Keeps what the process has written. Must be called before flows are sent to it. */
  keep(): void;
  /** Removes what was not kept. */
  discard(): void;
};

type CodeCacheOptions = Pick<
  CompleteOptions,
  "codeCacheDir" | "dir" | "modulesDir" | "allow" | "maxOldSpaceMb" | "entry"
>;

/** Undefined if there is none: a process is then started without it, only slower. */
export function openCodeCache(options: CodeCacheOptions): CodeCacheFile | undefined {
  const { codeCacheDir, dir, modulesDir, allow } = options;
  if (codeCacheDir === undefined || !existsSync(codeCacheDir)) {
    return undefined;
  }
  const folder = realpathSync(codeCacheDir);
  if (isWritable(folder, [dir, ...allow.fileSystemWrite])) {
    return undefined;
  }
  const file = join(folder, nameOf(options));
  const existing = tryOpen(file, "r");
  if (existing !== undefined) {
    return { fd: existing, spawned: () => closeSync(existing), keep() {}, discard() {} };
  }
  // Code of added modules would run while the file can be written.
  if (modulesDir !== undefined && hasModules(modulesDir)) {
    return undefined;
  }
  const unfinished = `${file}.${randomUUID()}`;
  const fd = tryOpen(unfinished, "wx+");
  return fd === undefined ? undefined : createRecording(fd, unfinished, file);
}

function createRecording(fd: number, unfinished: string, file: string): CodeCacheFile {
  let isPending = true;
  const end = (act: () => Promise<void>): void => {
    if (isPending) {
      isPending = false;
      // Without the cache, processes only start more slowly.
      void act()
        .catch(() => rm(unfinished, { force: true }).catch(() => {}))
        .finally(() => closeSync(fd));
    }
  };
  return {
    fd,
    spawned() {},
    keep: () =>
      end(async () => {
        await promisify(fsync)(fd);
        await (fstatSync(fd).size > 0 ? rename(unfinished, file) : rm(unfinished));
      }),
    discard: () => end(() => rm(unfinished)),
  };
}

/** Undefined: it does not exist, or the folder can't be used. */
function tryOpen(path: string, flags: "r" | "wx+"): number | undefined {
  try {
    return openSync(path, flags, 0o600);
  } catch {
    return undefined;
  }
}

/** Of the file, which is not read in another one. */
const format = 3;

/** V8 rejects code that was compiled with other flags. The paths of modules are part of the cache, and other versions require others. */
function nameOf({ maxOldSpaceMb, entry }: CodeCacheOptions): string {
  const flowRuntime = `${resolvePackage("@node-red/runtime")} ${readFlowRuntimeVersion()}`;
  const key = JSON.stringify([format, process.version, maxOldSpaceMb, entry.href, flowRuntime]);
  return `flow-runtime-${hash("sha256", key).slice(0, 16)}`;
}
