import { mkdir, mkdtemp, mkdtempDisposable, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { patchNodeRed } from "../src/child/patches.ts";

type ExternalModules = { checkFlowDependencies(flows: object[]): unknown };
type FlowUtil = {
  readonly parseConfig: (flows: object[]) => object;
  readonly diffConfigs: (before: object, after: object) => { readonly linked: string[] };
};

/** Loads the file with the hook installed, and returns the reasons with which the hook has skipped it. */
function loadPatched(path: string): { module: unknown; skipped: string[] } {
  const skipped: string[] = [];
  using _ = patchNodeRed((reason) => skipped.push(reason));
  const require = createRequire(path);
  // Another test of this process may have loaded it without the hook.
  delete require.cache[path];
  return { module: require(path), skipped };
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
  const { module, skipped } = loadPatched(createRequire(runtime).resolve("@node-red/registry/lib/externalModules.js"));
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
  await Promise.resolve((module as ExternalModules).checkFlowDependencies(flows)).catch(() => {});
  expect(skipped).toEqual([]);
  expect(copies).toBe(0);
  expect(flows).toEqual([node]);
});

/** The differences when a node of a ring of nodes changes, and how often a list was copied meanwhile. */
function diffRing({ parseConfig, diffConfigs }: FlowUtil): { linked: string[]; copies: number } {
  const ring = (name: string) =>
    Array.from({ length: 100 }, (_, index) => ({
      id: `${index}`,
      type: "junction",
      ...(index === 0 && { name }),
      wires: [[`${(index + 1) % 100}`]],
    }));
  const [before, after] = [parseConfig(ring("before")), parseConfig(ring("after"))];
  using concat = vi.spyOn(Array.prototype, "concat");
  const { linked } = diffConfigs(before, after);
  return { linked, copies: concat.mock.calls.length };
}

test("the installed flow runtime follows wires without a copy of the list for each node", () => {
  const path = createRequire(createRequire(import.meta.url).resolve("@node-red/runtime")).resolve("./flows/util.js");
  const original = createRequire(path)(path) as FlowUtil;
  delete createRequire(path).cache[path];
  const { module, skipped } = loadPatched(path);
  expect(skipped).toEqual([]);
  const expected = diffRing(original);
  const found = diffRing(module as FlowUtil);
  expect(found.linked).toHaveLength(99);
  expect(found.linked).toEqual(expected.linked);
  expect(expected.copies).toBeGreaterThan(99);
  expect(found.copies).toBeLessThan(10);
});

type LocalFiles = { init: (settings: object) => void; getNodeFiles: () => Record<string, { nodes: object }> };

test("the installed flow runtime looks for nodes in its own folder and that of added modules, not in those of other packages", async () => {
  const load = createRequire(createRequire(import.meta.url).resolve("@node-red/runtime"));
  const path = load.resolve("@node-red/registry/lib/localfilesystem.js");
  const { i18n } = load("@node-red/util") as { i18n: { init(settings: object): void } };
  i18n.init({});
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-nodes-"));
  const writeModule = async (parent: string, name: string): Promise<void> => {
    const module = join(folder.path, parent, "node_modules", name);
    await mkdir(module, { recursive: true });
    await writeFile(
      join(module, "package.json"),
      JSON.stringify({ name, "node-red": { nodes: { [name]: "node.js" } } }),
    );
  };
  await writeModule("installed", "beside");
  await writeModule("modules", "added");
  await writeFile(join(folder.path, "modules/package.json"), "{}");
  const coreNodesDir = join(folder.path, "installed/node_modules/@node-red/nodes");
  await mkdir(join(coreNodesDir, "core"), { recursive: true });
  for (const name of ["inject.js", "inject.html"]) {
    await writeFile(join(coreNodesDir, "core", name), "");
  }
  const find = (files: unknown) => {
    const { init, getNodeFiles } = files as LocalFiles;
    init({ coreNodesDir, userDir: join(folder.path, "modules") });
    return Object.entries(getNodeFiles()).map(([name, { nodes }]) => [name, Object.keys(nodes)]);
  };
  const own = ["node-red", ["inject"]];
  expect(find(load(path))).toEqual([own, ["added", ["added"]], ["beside", ["beside"]]]);
  delete load.cache[path];
  const { module, skipped } = loadPatched(path);
  expect(skipped).toEqual([]);
  expect(find(module)).toEqual([own, ["added", ["added"]]]);
});

test("the installed flow runtime loads its own nodes as it does others", async () => {
  const load = createRequire(createRequire(import.meta.url).resolve("@node-red/runtime"));
  const path = load.resolve("@node-red/registry/lib/loader.js");
  delete load.cache[path];
  const { module, skipped } = loadPatched(path);
  expect(skipped).toEqual([]);
  const { loadNodeSet } = module as { loadNodeSet: (node: object) => Promise<{ loaded?: boolean; err?: Error }> };
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-nodes-"));
  for (const of of ["node-red", "other"]) {
    const [good, bad] = ["good", "bad"].map((name) => join(folder.path, `${of}-${name}.js`)) as [string, string];
    await writeFile(good, "exports.isNode = true;");
    await writeFile(bad, "throw new Error('no node');");
    expect(await loadNodeSet({ enabled: true, file: good, module: of })).toMatchObject({ loaded: true });
    const { loaded, err } = await loadNodeSet({ enabled: true, file: bad, module: of });
    expect({ of, loaded, err: String(err) }).toEqual({
      of,
      loaded: undefined,
      err: expect.stringMatching(/^Error: no node/) as unknown,
    });
  }
});

/** Loads a file of the installed flow runtime. `used`: what it calls of a package that it requires. */
async function loadWithout(file: string, name: string, uses: RegExp) {
  const load = createRequire(createRequire(import.meta.url).resolve("@node-red/runtime"));
  const path = load.resolve(file);
  const dependency = createRequire(path).resolve(name);
  delete load.cache[path];
  delete load.cache[dependency];
  const { module, skipped } = loadPatched(path);
  const used = new Set((await readFile(path, "utf8")).match(uses));
  return { module, skipped, used: [...used], isLoaded: () => load.cache[dependency] !== undefined };
}

test("the installed flow runtime loads moment when a date is formatted", async () => {
  const uses = /\bmoment\b(?:\.\w+)?(?=[(.])/g;
  const { module, skipped, used, isLoaded } = await loadWithout("@node-red/util/lib/util.js", "moment-timezone", uses);
  expect([skipped, used, isLoaded()]).toEqual([[], ["moment"], false]);
  const { evaluateNodeProperty } = module as { evaluateNodeProperty: (value: string, type: string) => unknown };
  expect(evaluateNodeProperty("[year] YYYY", "date")).toBe(`year ${new Date().getFullYear()}`);
  expect(isLoaded()).toBe(true);
});

test("the installed flow runtime does not load tar, of which it would only use one function", async () => {
  const { skipped, used, isLoaded } = await loadWithout(
    "@node-red/registry/lib/installer.js",
    "tar",
    /\btar\.\w+(?=\()/g,
  );
  expect([skipped, used, isLoaded()]).toEqual([[], ["tar.x"], false]);
});

test("copies the list and no nodes in the tested version", async () => {
  await withRegistry({ version: "5.0.7", source: original }, (path) => {
    const { module, skipped } = loadPatched(path);
    const flows = [{ id: "a" }];
    const copied = (module as ExternalModules).checkFlowDependencies(flows) as object[];
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
    const { module, skipped } = loadPatched(path);
    const flows = [{ id: "a" }];
    expect(((module as ExternalModules).checkFlowDependencies(flows) as object[])[0]).not.toBe(flows[0]);
    expect(skipped).toEqual([
      `@node-red/registry ${registry.version} is used as it is: starts and large deployments are faster with 5.0.7`,
    ]);
  });
});
