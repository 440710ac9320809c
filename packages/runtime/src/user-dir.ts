import { chmodSync, realpathSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { makeDirectory } from "@flowgate/base/directories";
import type { LogEntry } from "./messages.ts";
import { readModules } from "./modules/spec.ts";
import { formatModule } from "@flowgate/base/module-names";

type Log = (entry: LogEntry, source: "runtime") => void;

/** Creates the runtime's directory if it is missing, makes it private to its owner, and returns its real path. */
export function prepareUserDir(path: string): string {
  makeDirectory(path);
  chmodSync(path, 0o700);
  return realpathSync(path);
}

/** Removes all that flows have written to the runtime's directory. Symbolic links are not followed. Failures are logged. */
export async function removeContent({ dir, log }: { readonly dir: string; readonly log: Log }): Promise<void> {
  try {
    const names = await readdir(dir);
    await Promise.all(names.map((name) => rm(join(dir, name), { recursive: true, force: true })));
    log({ level: "info", message: "the files in runtime.dir were removed" }, "runtime");
  } catch (error) {
    const reason = error instanceof Error && "code" in error ? String(error.code) : String(error);
    log({ level: "error", message: `not all files in runtime.dir could be removed (${reason})` }, "runtime");
  }
}

/** Logs which modules in the user folder are not loaded, as they were before there was a folder that flows can't write. */
export function warnOfUnloadedModules(dir: string, modulesDir: string | undefined, log: Log): void {
  const installed = new Set(modulesDir === undefined ? [] : readModules(modulesDir).map(({ name }) => name));
  const modules = readModules(dir).filter(({ name }) => !installed.has(name));
  if (modules.length === 0) {
    return;
  }
  log(
    {
      level: "warn",
      message:
        `the modules in runtime.dir are not loaded, since flows can write there: ${modules.map(({ name }) => name).join(", ")}. ` +
        "Flows can have changed this list. Install those that you know with " +
        `"flowgate module install ${modules.map(formatModule).join(" ")}", then run "flowgate runtime restart"`,
    },
    "runtime",
  );
}
