import { chmodSync, existsSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeDirectory } from "../make-directory.ts";

/** Makes the directory fit for the runtime, readable for its owner only, and returns its real path. */
export function prepareUserDir(path: string): string {
  makeDirectory(path);
  chmodSync(path, 0o700);
  // The runtime logs an error where there is none, and npm would install into a directory above.
  const manifest = join(path, "package.json");
  if (!existsSync(manifest)) {
    const content = { name: "flowgate-user-dir", description: "Nodes for the flows of this gateway", private: true };
    writeFileSync(manifest, `${JSON.stringify(content, undefined, 2)}\n`);
  }
  return realpathSync(path);
}
