import { existsSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { SandboxPermissions } from "./options.ts";

const passedOn = ["PATH", "LANG", "LANGUAGE", "LC_ALL", "TZ", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/** Each exec node checks that it exists, and could not even be created otherwise; whether it starts is another flag. */
const execShell = "/bin/bash";

/**
 * Node's flags that limit what flows can do, for the function node's vm does not; loopholes.ts does the rest.
 *
 * Reading is limited too: to the program, its packages and `userDir`. Beside `userDir` lie the service's
 * database and key, and in /proc the environment of the parent.
 */
export function confinementFlags(entry: URL, userDir: string, allow: Required<SandboxPermissions>): string[] {
  const program = fileURLToPath(entry);
  const readable = [...programFiles(program), execShell, userDir, ...allow.fileSystemRead, ...allow.fileSystemWrite];
  return [
    "--permission",
    ...readable.map((path) => `--allow-fs-read=${path}`),
    ...[userDir, ...allow.fileSystemWrite].map((path) => `--allow-fs-write=${path}`),
    "--allow-net",
    // For orphan-watch.ts; the child gives it up before it loads any node, unless it is allowed.
    "--allow-worker",
    ...(allow.childProcess ? ["--allow-child-process"] : []),
    ...(allow.nativeAddons ? ["--allow-addons"] : []),
    // It opens files past the permission model.
    "--no-experimental-sqlite",
    "--no-experimental-ffi",
    "--disable-sigusr1",
    // Node itself writes these past the permission model, into the working directory if not told otherwise.
    `--diagnostic-dir=${userDir}`,
    `--trace-event-file-pattern=${join(userDir, "node_trace.${rotation}.log")}`,
    "--disable-warning=ExperimentalWarning",
    "--disable-warning=SecurityWarning",
  ];
}

/** Of all variables only these: the others may hold the service's secrets. */
export function confinedEnvironment(userDir: string, allow: Required<SandboxPermissions>): NodeJS.ProcessEnv {
  const names = [...passedOn, ...allow.env];
  const entries = names.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  // The one directory where a node that keeps something at home may write.
  return { HOME: userDir, ...Object.fromEntries(entries) };
}

function programFiles(program: string): string[] {
  const flowRuntime = createRequire(import.meta.url).resolve("@node-red/runtime");
  const above = [program, realpathSync(import.meta.filename), realpathSync(flowRuntime)].flatMap(directoriesAbove);
  const packages = above.map((directory) => join(directory, "node_modules"));
  const manifests = directoriesAbove(program).map((directory) => join(directory, "package.json"));
  const found = [...packages, ...manifests].filter((path) => existsSync(path));
  return [...new Set([dirname(program), import.meta.dirname, ...found])];
}

function directoriesAbove(path: string): string[] {
  const parent = dirname(path);
  return parent === path ? [] : [parent, ...directoriesAbove(parent)];
}
