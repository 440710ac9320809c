import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findProblems, type Lockfile, productionPackages } from "./lockfile-check.ts";
import { root } from "./stage.ts";

const lockfile = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as Lockfile;

test("the lockfile has a hash for each package, and binaries for Linux, macOS and Windows", () => {
  expect(findProblems(lockfile)).toEqual([]);
});

test("the check finds missing hashes and missing binaries", () => {
  const { integrity: _, ...withoutHash } = lockfile.packages["node_modules/zod"] ?? {};
  const { "node_modules/@oxlint/binding-darwin-arm64": __, ...others } = lockfile.packages;
  expect(findProblems({ packages: { ...others, "node_modules/zod": withoutHash } })).toEqual([
    "node_modules/zod has no hash",
    "oxlint has no binary for darwin-arm64",
  ]);
});

test("a production installation has the documented number of packages, without TypeScript and npm", () => {
  const packages = productionPackages(lockfile, "linux");
  const documented = /^\| `npm ci --omit=dev` \| (\d+) \|/m.exec(
    readFileSync(join(root, "docs/dependencies.md"), "utf8"),
  )?.[1];
  expect(packages).toHaveLength(Number(documented));
  expect(packages).toContain("@node-red/runtime");
  expect(packages).not.toContain("typescript");
  // The real npm would have a hash.
  expect(lockfile.packages["node_modules/npm"]).toMatchObject({ resolved: "packages/npm", link: true });
});
