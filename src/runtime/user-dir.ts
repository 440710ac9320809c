import { chmodSync, existsSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeDirectory } from "../make-directory.ts";

/** Creates the runtime's directory if it is missing, makes it private to its owner, and returns its real path. */
export function prepareUserDir(path: string): string {
  makeDirectory(path);
  chmodSync(path, 0o700);
  // Without a manifest the runtime logs an error, and npm installs into a parent directory.
  const manifest = join(path, "package.json");
  if (!existsSync(manifest)) {
    const content = { name: "flowgate-user-dir", description: "Nodes for the flows of this gateway", private: true };
    writeFileSync(manifest, `${JSON.stringify(content, undefined, 2)}\n`);
  }
  return realpathSync(path);
}
