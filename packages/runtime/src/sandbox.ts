import { existsSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { passedVariables } from "@flowgate/base/passed-variables";
import { resolvePackage } from "@flowgate/base/resolve-package";
import type { SandboxPermissions } from "./options.ts";

/** The exec node can't be created unless it can check that this file exists. Running it needs `childProcess`. */
const execShell = "/bin/bash";

/**
 * Returns the Node flags that limit what flows can do, since the vm of the function node does not isolate them.
 * sandbox-hardening.ts restricts what these flags leave open.
 *
 * Files can be read in the directories of the program, its packages and `userDir` only: the service's database and key are
 * next to `userDir`, and /proc contains the environment of the parent.
 */
export function sandboxFlags(entry: URL, userDir: string, allow: Required<SandboxPermissions>): string[] {
  const program = fileURLToPath(entry);
  const readable = [...programFiles(program), execShell, userDir, ...allow.fileSystemRead, ...allow.fileSystemWrite];
  const wildcard = readable.find(hasWildcard);
  if (wildcard !== undefined) {
    throw new Error(`a path that flows may use must not contain "*": ${wildcard}`);
  }
  return [
    "--permission",
    ...readable.map((path) => `--allow-fs-read=${path}`),
    ...[userDir, ...allow.fileSystemWrite].map((path) => `--allow-fs-write=${path}`),
    "--allow-net",
    // For child/watchdog.ts. The child drops this permission before it loads any node, unless flows may have it.
    "--allow-worker",
    // For the same: threads of flows must not have it, since it gives access to the code that limits them.
    ...(allow.worker ? [] : ["--allow-inspector"]),
    ...(allow.childProcess ? ["--allow-child-process"] : []),
    ...(allow.nativeAddons ? ["--allow-addons"] : []),
    // These open files without the permission model.
    "--no-experimental-sqlite",
    "--no-experimental-ffi",
    "--disable-sigusr1",
    // Node writes these files without the permission model, into the working directory by default.
    `--diagnostic-dir=${userDir}`,
    `--trace-event-file-pattern=${join(userDir, "node_trace.${rotation}.log")}`,
    "--disable-warning=ExperimentalWarning",
    "--disable-warning=SecurityWarning",
  ];
}

/** In the paths of its permission flags, Node takes `*` and what follows it for any text. It can't be escaped. */
export function hasWildcard(path: string): boolean {
  return path.includes("*");
}

/** Returns a subset of the environment variables: the others may contain the service's secrets. */
export function sandboxEnvironment(allow: Required<SandboxPermissions>): NodeJS.ProcessEnv {
  const names = [...passedVariables, ...allow.env];
  const entries = names.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  // Without HOME, from which Node would load modules: the child sets it to the user folder later.
  return Object.fromEntries(entries);
}

const linkedPackages = ["base", "flows", "gateway"].map((name) => `@flowgate/${name}`);

/** The files and directories that the program consists of, as far as they are known. */
export function programFiles(program: string): string[] {
  const flowRuntime = resolvePackage("@node-red/runtime", import.meta.url);
  const above = [program, realpathSync(import.meta.filename), realpathSync(flowRuntime)].flatMap(directoriesAbove);
  const packages = above.map((directory) => join(directory, "node_modules"));
  const manifests = directoriesAbove(program).map((directory) => join(directory, "package.json"));
  const found = [...packages, ...manifests].filter((path) => existsSync(path));
  // Packages that can be links, which lead out of node_modules: from source those of Flowgate, and the one that stands in for npm.
  const linked = packages
    .flatMap((directory) => [...linkedPackages, "npm"].map((name) => join(directory, name)))
    .filter((path) => existsSync(path));
  const folders = [dirname(program), import.meta.dirname, ...found, ...linked.map((path) => realpathSync(path))];
  return [...new Set(folders)];
}

function directoriesAbove(path: string): string[] {
  const parent = dirname(path);
  return parent === path ? [] : [parent, ...directoriesAbove(parent)];
}

/** The service's options by the Node permission flags that they set. */
const optionsByFlag: ReadonlyMap<string, string> = new Map([
  ["fs-read", "runtime.allow.fileSystemRead"],
  ["fs-write", "runtime.allow.fileSystemWrite"],
  ["child-process", "runtime.allow.childProcess"],
  ["worker", "runtime.allow.worker"],
  ["addons", "runtime.allow.nativeAddons"],
]);

/**
 * Replaces the flags in messages of Node's permission model by the service's options, because users can't set flags of the
 * runtime's process.
 */
export function nameOptions(message: string): string {
  return message.replaceAll(/\bUse --allow-([a-z-]+) to manage permissions\./g, (_, flag: string) => {
    const option = optionsByFlag.get(flag);
    return option === undefined ? "No option of the service permits it." : `The option ${option} permits it.`;
  });
}
