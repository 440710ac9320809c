// Publishes the three packages, the service last because it depends on the transcoder: `npm run release`. Arguments are
// passed to npm, such as --dry-run.
import { execFileSync } from "node:child_process";
import { resolve } from "node:path";
import { workspaces } from "./workspaces.ts";

const root = resolve(import.meta.dirname, "..");

execFileSync("npm", ["run", "build"], { cwd: root, stdio: "inherit" });
for (const folder of [...workspaces.map((workspace) => `${workspace}/dist`), "."]) {
  execFileSync("npm", ["publish", "--ignore-scripts", "--access", "public", ...process.argv.slice(2), `./${folder}`], {
    cwd: root,
    stdio: "inherit",
  });
}
