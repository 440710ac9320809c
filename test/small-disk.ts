import { execFileSync, spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A file system of this size. */
export async function createDisk(sizeMb: number): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), "flowgate-disk-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${sizeMb}m`, "tmpfs", path]);
  return {
    path,
    async [Symbol.asyncDispose]() {
      execFileSync("umount", ["--lazy", path]);
      await rm(path, { recursive: true });
    },
  };
}

/** Whether file systems can be mounted, which needs root and which containers may forbid. */
export function canMount(): boolean {
  return (
    process.getuid?.() === 0 && spawnSync("unshare", ["--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).status === 0
  );
}
