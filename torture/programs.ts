import { spawnSync } from "node:child_process";

/** A program of the system, and the Debian package that has it. */
export type Program = { readonly name: string; readonly debianPackage: string; readonly args: readonly string[] };

/** Attaches to its own child, which containers may forbid. */
export const strace: Program = { name: "strace", debianPackage: "strace", args: ["-o", "/dev/null", "true"] };

export const prlimit: Program = { name: "prlimit", debianPackage: "util-linux", args: ["--version"] };

export const ipcrm: Program = { name: "ipcrm", debianPackage: "util-linux", args: ["--version"] };

export const curl: Program = { name: "curl", debianPackage: "curl", args: ["--version"] };

/** Why a program can't be used; undefined if it can. */
export function reasonAgainst({ name, debianPackage, args }: Program): string | undefined {
  const { error, status } = spawnSync(name, args, { stdio: "ignore" });
  if (error !== undefined) {
    return `${name} is not installed (Debian package ${debianPackage})`;
  }
  return status === 0 ? undefined : `${name} does not work here: exit code ${status}`;
}
