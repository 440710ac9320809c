import { readFileSync, statfsSync } from "node:fs";

const folder = "/dev/shm";
const enoughBytes = 4 * 1024 ** 3;

/**
 * A folder for temporary files that is in memory, with enough room for those of all tests. Undefined: there is none.
 *
 * Each database of PostgreSQL has 300 files. To create them after others were removed, ext4 searches for inodes that were not freed
 * just now, which takes more CPU time than PostgreSQL; and each commit of SQLite waits for a disk.
 */
export function findMemoryFolder(): string | undefined {
  const options = mountOptions();
  if (options === undefined || options.includes("noexec") || process.availableMemory() < enoughBytes) {
    return undefined;
  }
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize < enoughBytes ? undefined : folder;
}

function mountOptions(): string[] | undefined {
  try {
    return /^\S+ \/dev\/shm tmpfs (\S+)/m.exec(readFileSync("/proc/mounts", "utf8"))?.[1]?.split(",");
  } catch {
    // Not on Linux.
    return undefined;
  }
}
