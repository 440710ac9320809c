import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { avoidDeepFlowCopy } from "../../src/runtime/child/node-red.ts";

type ExternalModules = { checkFlowDependencies(flows: object[]): unknown };

/** Loads the file with the hook installed, and returns the reasons with which the hook has skipped it. */
function load(path: string): { module: ExternalModules; skipped: string[] } {
  const skipped: string[] = [];
  avoidDeepFlowCopy((reason) => skipped.push(reason));
  return { module: createRequire(path)(path) as ExternalModules, skipped };
}

/** Writes a package of this version and source, and calls `check` with the path of its file. */
async function withRegistry(
  { version, source }: { version: string; source: string },
  check: (path: string) => void,
): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "flowgate-registry-"));
  const packageDir = join(directory, "node_modules/@node-red/registry");
  try {
    await mkdir(join(packageDir, "lib"), { recursive: true });
    await writeFile(join(packageDir, "package.json"), JSON.stringify({ name: "@node-red/registry", version }));
    await writeFile(join(packageDir, "lib/externalModules.js"), source);
    check(join(packageDir, "lib/externalModules.js"));
  } finally {
    await rm(directory, { recursive: true });
  }
}

const original = `const clone = structuredClone;
exports.checkFlowDependencies = (flowConfig) => {
    let nodes = clone(flowConfig);
    return nodes;
};`;

test("the installed flow runtime copies the list and no nodes", async () => {
  const runtime = createRequire(import.meta.url).resolve("@node-red/runtime");
  const { module, skipped } = load(createRequire(runtime).resolve("@node-red/registry/lib/externalModules.js"));
  let copies = 0;
  const node = {
    id: "a",
    type: "comment",
    get text() {
      copies += 1;
      return "only read by a deep copy";
    },
  };
  const flows = [node];
  // It rejects because the flow runtime is not initialized, but makes the copy first.
  await Promise.resolve(module.checkFlowDependencies(flows)).catch(() => {});
  expect(skipped).toEqual([]);
  expect(copies).toBe(0);
  expect(flows).toEqual([node]);
});

test("copies the list and no nodes in the tested version", async () => {
  await withRegistry({ version: "5.0.7", source: original }, (path) => {
    const { module, skipped } = load(path);
    const flows = [{ id: "a" }];
    const copied = module.checkFlowDependencies(flows) as object[];
    expect(copied).not.toBe(flows);
    expect(copied[0]).toBe(flows[0]);
    expect(skipped).toEqual([]);
  });
});

test.for([
  ["another version", { version: "5.0.8", source: original }],
  ["a different source", { version: "5.0.7", source: original.replace("let nodes", "const nodes") }],
] as const)("changes nothing in %s, and reports the reason", async ([, registry]) => {
  await withRegistry(registry, (path) => {
    const { module, skipped } = load(path);
    const flows = [{ id: "a" }];
    expect((module.checkFlowDependencies(flows) as object[])[0]).not.toBe(flows[0]);
    expect(skipped).toEqual([
      `@node-red/registry ${registry.version} is used as it is: large deployments are faster with 5.0.7`,
    ]);
  });
});
