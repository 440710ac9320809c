// Publishes the packages, the service last because it depends on the gateway library: `npm run release`. Arguments are
// passed to npm, such as --dry-run. See docs/release.md.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { workspaces } from "./workspaces.ts";

/** The address of the repository in package.json until there is a public one. */
const placeholder = "https://example.invalid/flowgate";

const root = resolve(import.meta.dirname, "..");
const args = process.argv.slice(2);
const isDryRun = args.includes("--dry-run");
const manifest = join(root, "package.json");
const original = readFileSync(manifest, "utf8");
const repository = process.env["FLOWGATE_REPOSITORY"];

if (repository === undefined && !isDryRun && original.includes(placeholder)) {
  throw new Error(
    "FLOWGATE_REPOSITORY must be the public address of the repository, such as https://github.com/owner/name",
  );
}
// npm creates a provenance statement in a CI job only, with the identity that the CI issues to it.
const provenance = isDryRun ? [] : ["--provenance"];

try {
  if (repository !== undefined) {
    writeFileSync(manifest, original.replaceAll(placeholder, repository));
  }
  execFileSync("npm", ["run", "build"], { cwd: root, stdio: "inherit" });
  for (const folder of [...workspaces.map((workspace) => `${workspace}/dist`), "."]) {
    const publish = ["publish", "--ignore-scripts", "--access", "public", ...provenance, ...args, `./${folder}`];
    execFileSync("npm", publish, { cwd: root, stdio: "inherit" });
  }
} finally {
  if (repository !== undefined) {
    writeFileSync(manifest, original);
  }
}
