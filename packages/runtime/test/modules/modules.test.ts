import { once } from "node:events";
import { existsSync, writeFileSync } from "node:fs";
import { chmod, cp, mkdir, mkdtempDisposable, readFile, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { type Modules, openModules } from "../../src/modules/modules.ts";
import { ensureModulesDir, identifyFolder } from "../../src/modules/folder.ts";
import { listAdditions } from "../../src/modules/addition.ts";
import { type Package, openNpmRegistry, pack, packFolders } from "./npm-registry.ts";
import { writeModules } from "./write-modules.ts";
import { canMount, createDisk } from "../../../../test/small-disk.ts";
import { formatTar, longName, paxHeader, zeroBlock } from "./tar.ts";
import { needs } from "../../../../test/needs.ts";

type Opened = AsyncDisposable & { readonly modules: Modules; readonly dataDir: string; hasRun(): boolean };

/**
 * Opens modules that are installed from a registry with these packages, or from the folder `tarballs`. Only the install scripts of packages
 * named "known" are run.
 */
async function open(
  packagesOf: (script: object, url: string) => readonly Package[],
  {
    tarballs,
    parent = tmpdir(),
    onStep = () => {},
  }: {
    readonly tarballs?: string;
    readonly parent?: string;
    readonly onStep?: (step: string, dataDir: string) => void;
  } = {},
): Promise<Opened> {
  const folder = await mkdtempDisposable(join(parent, "flowgate-modules-"));
  const ran = join(folder.path, "ran");
  const dataDir = join(folder.path, "data");
  await mkdir(dataDir);
  const registry = await openNpmRegistry((url) => packagesOf({ install: `echo > ${ran}` }, url));
  const modules = openModules({
    dataDir,
    registry: tarballs ?? registry.url,
    allow: ["*"],
    deny: ["denied"],
    scripts: ["known"],
    timeoutMs: 60_000,
    sizeMb: 100,
    log: () => {},
    onProgress: ({ message }) => onStep(message, dataDir),
  });
  return {
    modules,
    dataDir,
    hasRun: () => existsSync(ran),
    async [Symbol.asyncDispose]() {
      await modules[Symbol.asyncDispose]();
      await registry[Symbol.asyncDispose]();
      await folder.remove();
    },
  };
}

type Packument = { readonly versions: { readonly "1.0.0": { readonly dist: { tarball: string; integrity: string } } } };

const contrib = { name: "contrib", version: "1.0.0" };
const known = { name: "known", version: "1.0.0" };

test("runs the install script of a package that the configuration names", async () => {
  await using opened = await open((scripts) => [
    { ...known, manifest: { scripts } },
    { ...contrib, manifest: { dependencies: { known: "1.0.0" } } },
  ]);
  const { scriptsNotRun } = await opened.modules.install({ name: "contrib", version: "latest" });
  expect([scriptsNotRun, opened.hasRun()]).toEqual([[], true]);
});

test("runs no install script of another package that is installed by this name", async () => {
  await using opened = await open((scripts) => [
    { name: "other", version: "1.0.0", manifest: { scripts } },
    { ...contrib, manifest: { dependencies: { known: "npm:other@1.0.0" } } },
  ]);
  const { scriptsNotRun } = await opened.modules.install({ name: "contrib", version: "latest" });
  expect([scriptsNotRun, opened.hasRun()]).toEqual([["known"], false]);
});

test("runs no install script of a package that another one contains", async () => {
  await using opened = await open((scripts) => [
    {
      ...contrib,
      manifest: { dependencies: { known: "1.0.0" }, bundleDependencies: ["known"] },
      files: { "node_modules/known/package.json": JSON.stringify({ ...known, scripts }) },
    },
  ]);
  const { scriptsNotRun } = await opened.modules.install({ name: "contrib", version: "latest" });
  expect([scriptsNotRun, opened.hasRun()]).toEqual([["known"], false]);
});

test("runs no install script of a package from an address in the lockfile of another one", async () => {
  const folder = await mkdtempDisposable(join(tmpdir(), "flowgate-modules-"));
  await using _ = folder;
  const ran = join(folder.path, "ran");
  const manifest = { scripts: { install: `echo > ${ran}` } };
  await using elsewhere = await openNpmRegistry(() => [{ ...known, manifest }]);
  const { versions } = (await (await fetch(`${elsewhere.url}/known`)).json()) as Packument;
  const { tarball: resolved, integrity } = versions["1.0.0"].dist;
  const packages = {
    "": { ...contrib, dependencies: { known: "1.0.0" } },
    "node_modules/known": { version: "1.0.0", resolved, integrity, hasInstallScript: true },
  };
  await using opened = await open(() => [
    {
      ...contrib,
      manifest: { dependencies: { known: "1.0.0" }, _hasShrinkwrap: true },
      files: { "npm-shrinkwrap.json": JSON.stringify({ ...contrib, lockfileVersion: 3, packages }) },
    },
  ]);
  const { scriptsNotRun } = await opened.modules.install({ name: "contrib", version: "latest" });
  expect([scriptsNotRun, existsSync(ran)]).toEqual([["known"], false]);
});

test("runs no install script of a package that was uploaded", async () => {
  let tarball: Promise<Uint8Array> = Promise.resolve(Buffer.alloc(0));
  await using opened = await open((scripts) => {
    tarball = pack({ ...known, manifest: { scripts } });
    return [];
  });
  const { scriptsNotRun } = await opened.modules.install({ tarball: await tarball });
  expect([scriptsNotRun, opened.hasRun()]).toEqual([["known"], false]);
});

test("refuses a package whose peer comes from a URL", async () => {
  await using opened = await open((scripts, url) => [
    { name: "other", version: "1.0.0", packedName: "known", manifest: { scripts } },
    { ...contrib, manifest: { peerDependencies: { known: `${url}/other-1.0.0.tgz` } } },
  ]);
  await expect(opened.modules.install({ name: "contrib", version: "latest" })).rejects.toThrow(
    "contrib requires known, which does not come from a registry",
  );
  expect(opened.hasRun()).toBe(false);
});

test("refuses a tarball in which npm finds another name", async () => {
  await using opened = await open(() => [contrib]);
  const { modules } = opened;
  await modules.install({ name: "contrib", version: "latest" });
  const denied = JSON.stringify({ name: "denied", version: "1.0.0" });
  const tarball = await packFolders({ a: { "package.json": JSON.stringify(contrib) }, b: { "package.json": denied } });
  await expect(modules.install({ tarball })).rejects.toMatchObject({
    reason: "invalid_argument",
    message: "tarball: has more than one package.json: make it with npm pack",
  });
  expect((await modules.list()).map(({ name }) => name)).toEqual(["contrib"]);
});

describe("a tarball that npm reads in another way", () => {
  const plain = { path: "package/package.json", content: JSON.stringify(contrib) };
  type Entries = Parameters<typeof formatTar>[0];
  const several = "has more than one package.json";

  /** `hidden` is the package.json that requires a package from a URL, and npm would find. */
  test.each<[how: string, problem: string, entriesOf: (hidden: string) => Entries]>([
    ["since the file is there twice", several, (content) => [plain, { ...plain, content }]],
    [
      "since another folder has the file",
      several,
      (content) => [plain, { path: "other/package.json", content, prefix: "" }],
    ],
    ["since two paths name the file", several, (content) => [plain, { path: "package/./package.json", content }]],
    [
      "since a prefix completes its path",
      several,
      (content) => [plain, { ...plain, path: "package.json", prefix: "p", content }],
    ],
    [
      "by the path of an extended header",
      several,
      (content) => [plain, paxHeader({ path: "package/package.json" }), { path: "package/other", content }],
    ],
    [
      "by a long name",
      several,
      (content) => [plain, longName("package/package.json"), { path: "package/other", content }],
    ],
    [
      "since it skips a header whose checksum is wrong",
      "has a header whose checksum is wrong",
      (content) => [
        { ...plain, hasWrongChecksum: true },
        { ...plain, content },
      ],
    ],
    [
      "after a single block of zeros",
      "has files after its end",
      (content) => [plain, zeroBlock, { ...plain, content }],
    ],
    [
      "since it skips a file that names a target",
      'has an entry "package/package.json" that is both a link and none',
      (content) => [
        { ...plain, linkName: "x" },
        { ...plain, content },
      ],
    ],
    [
      "since an extended header has another size",
      several,
      (content) => {
        const inner = gunzipSync(formatTar([{ ...plain, content }])).subarray(0, -1_024);
        return [plain, paxHeader({ size: "0" }), { path: "package/padding", content: inner.toString("latin1") }];
      },
    ],
  ])("is refused before npm reads it: %s", async (_, problem, entriesOf) => {
    await using elsewhere = await openRequestLog();
    await using opened = await open(() => []);
    const hidden = JSON.stringify({ ...contrib, dependencies: { hidden: `${elsewhere.url}/hidden.tgz` } });
    const tarball = formatTar(entriesOf(hidden));
    await expect(opened.modules.install({ tarball })).rejects.toMatchObject({
      reason: "invalid_argument",
      message: `tarball: ${problem}: make it with npm pack`,
    });
    expect(elsewhere.paths).toEqual([]);
  });

  test("is refused before npm reads it, if a package that it contains requires one from a URL", async () => {
    await using elsewhere = await openRequestLog();
    await using opened = await open(() => []);
    const inner = { name: "inner", version: "1.0.0", dependencies: { hidden: `${elsewhere.url}/hidden.tgz` } };
    const tarball = await pack({
      ...contrib,
      manifest: { dependencies: { inner: "1.0.0" }, bundleDependencies: ["inner"] },
      files: { "node_modules/inner/package.json": JSON.stringify(inner) },
    });
    await expect(opened.modules.install({ tarball })).rejects.toMatchObject({
      reason: "module_failed",
      message: expect.stringContaining("contrib requires hidden, which does not come from a registry"),
    });
    expect(elsewhere.paths).toEqual([]);
  });
});

test("installs a tarball with long names, times and links", async () => {
  await using opened = await open(() => []);
  const long = `package/${"folder/".repeat(30)}a.js`;
  const tarball = formatTar([
    paxHeader({ comment: "a commit" }, "g"),
    { path: "package/", type: "5" },
    paxHeader({ mtime: "1.5", size: String(JSON.stringify(contrib).length), "SCHILY.dev": "1" }),
    { path: "package/package.json", content: JSON.stringify(contrib) },
    { path: "package/link", type: "2", linkName: "package.json" },
    paxHeader({ path: long }),
    { path: long.slice(0, 100), content: "a" },
    longName(long.replace("a.js", "b.js")),
    { path: long.slice(0, 100), content: "b" },
    { path: "package/node_modules/broken/package.json", content: "{" },
  ]);
  await opened.modules.install({ tarball });
  const folder = join(opened.dataDir, "modules/node_modules/contrib");
  const files = [long, long.replace("a.js", "b.js")].map((path) => join(folder, path.replace("package/", "")));
  expect(await Promise.all(files.map((file) => readFile(file, "utf8")))).toEqual(["a", "b"]);
});

/** A server that has nothing, and knows what was requested. */
async function openRequestLog(): Promise<
  AsyncDisposable & { readonly url: string; readonly paths: readonly string[] }
> {
  const paths: string[] = [];
  const server = createServer(({ url = "" }, response) => {
    paths.push(url);
    response.writeHead(404).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    paths,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

describe("packages by the names of Node-RED", () => {
  const nodes = { "node-red": { nodes: { all: "nodes.js" } } };
  const files = { "nodes.js": "module.exports = () => {};" };
  const hiding = { name: "node-red", version: "1.0.0", manifest: nodes, files };
  const reserved = "the names node-red and @node-red/… belong to Node-RED itself";

  test.each(["node-red", "Node-RED", "@node-red/nodes"])("are refused in a tarball: %s", async (name) => {
    await using opened = await open(() => []);
    const tarball = await pack({ ...hiding, name });
    await expect(opened.modules.install({ tarball })).rejects.toMatchObject({
      reason: "invalid_argument",
      message: expect.stringContaining(`tarball: ${name} can't be added: ${reserved}`),
    });
  });

  test.each<[how: string, packages: readonly Package[], message: string]>([
    [
      "by its name",
      [hiding, { ...contrib, manifest: { dependencies: { "node-red": "1.0.0" } } }],
      `node-red can't be added: ${reserved}`,
    ],
    [
      "as an alias",
      [hiding, { ...contrib, manifest: { dependencies: { other: "npm:node-red@1.0.0" } } }],
      "other is malformed: its package.json does not have this name",
    ],
    [
      "by another name than its own",
      [
        { ...hiding, name: "other", packedName: "node-red" },
        { ...contrib, manifest: { dependencies: { other: "1.0.0" } } },
      ],
      "other is malformed: its package.json does not have this name",
    ],
    [
      "that Node-RED takes for its folder of packages",
      [
        { name: "package.json", version: "1.0.0" },
        { ...contrib, manifest: { dependencies: { "package.json": "1.0.0" } } },
      ],
      "package.json can't be added: Node-RED would take it for",
    ],
  ])("are refused if a module brings one with nodes %s", async (_, packages, message) => {
    await using opened = await open(() => packages);
    await expect(opened.modules.install({ name: "contrib", version: "latest" })).rejects.toMatchObject({
      reason: "module_failed",
      message: expect.stringContaining(message),
    });
    expect(await opened.modules.list()).toEqual([]);
  });

  test("are installed if they define no nodes, and a module depends on them", async () => {
    await using opened = await open(() => [
      { name: "node-red", version: "1.0.0" },
      { name: "@node-red/util", version: "1.0.0" },
      {
        ...contrib,
        manifest: { dependencies: { "@node-red/util": "1.0.0" }, peerDependencies: { "node-red": "1.0.0" } },
      },
    ]);
    const { installed } = await opened.modules.install({ name: "contrib", version: "latest" });
    expect(installed.map(({ name }) => name)).toEqual(["contrib"]);
  });
});

test("refuses a package whose description for Node-RED is malformed, also as a dependency", async () => {
  await using opened = await open(() => [
    {
      name: "malformed",
      version: "1.0.0",
      files: { "package.json": JSON.stringify({ name: "malformed", version: "1.0.0", "node-red": null }) },
    },
    { ...contrib, manifest: { dependencies: { malformed: "1.0.0" } } },
  ]);
  for (const name of ["malformed", "contrib"]) {
    await expect(opened.modules.install({ name, version: "latest" })).rejects.toMatchObject({
      reason: "module_failed",
      message:
        "malformed is malformed: in its package.json, node-red must be an object. It is not installed, and the modules remain as they were",
    });
  }
  expect(await opened.modules.list()).toEqual([]);
});

test.each<[string, Record<string, readonly string[]>, circle: string]>([
  ["itself", { contrib: ["contrib"] }, "contrib → contrib"],
  [
    "others that need it",
    { contrib: ["one"], one: ["@scope/two"], "@scope/two": ["contrib"] },
    "contrib → one → @scope/two",
  ],
])("refuses a package whose nodes need %s", async (_, needs, circle) => {
  await using opened = await open(() =>
    Object.entries(needs).map(([name, names]) => ({
      name,
      version: "1.0.0",
      manifest: {
        dependencies: Object.fromEntries(names.filter((each) => each !== name).map((each) => [each, "1.0.0"])),
        "node-red": { nodes: { all: "nodes.js" }, dependencies: names },
      },
      files: { "nodes.js": "module.exports = () => {};" },
    })),
  );
  const error: unknown = await opened.modules.install({ name: "contrib", version: "latest" }).catch((reason) => reason);
  expect(error).toMatchObject({
    reason: "module_failed",
    message: expect.stringMatching(/^\S+ is malformed: its nodes need themselves, as node-red\.dependencies says: /),
  });
  // The circle may begin with another one of them.
  const [, names = ""] = /says: (.*)\. It is not installed/.exec((error as Error).message) ?? [];
  expect(`${names} → ${names}`).toContain(circle);
  expect(await opened.modules.list()).toEqual([]);
});

test("leaves the folder readable for the user of the flows, also if an installation fails", async () => {
  await using opened = await open(() => [contrib]);
  const { modules } = opened;
  const folder = join(opened.dataDir, "modules");
  await modules.install({ name: "contrib", version: "latest" });
  await chmod(folder, 0o755);
  await expect(modules.install({ name: "absent", version: "latest" })).rejects.toThrow("the registry has no package");
  expect((await stat(folder)).mode & 0o777).toBe(0o755);
  await modules.install({ name: "contrib", version: "1.0.0" });
  expect((await stat(folder)).mode & 0o777).toBe(0o755);
});

describe("the folder of modules", () => {
  const packages = [
    contrib,
    { ...contrib, version: "2.0.0" },
    { name: "@scope/other", version: "1.0.0", manifest: { dependencies: { shared: "1.0.0" } } },
    { name: "shared", version: "1.0.0" },
    known,
  ];
  const list = async ({ modules }: Opened) => (await modules.list()).map(({ name, version }) => `${name}@${version}`);

  test("stays while packages are added, and is replaced by other changes", async () => {
    await using opened = await open((scripts) => [...packages, { ...known, version: "1.1.0", manifest: { scripts } }]);
    const { modules, dataDir } = opened;
    const modulesDir = ensureModulesDir(join(dataDir, "modules"));
    const id = () => identifyFolder(modulesDir);
    /** Of a folder with the same inode and time, which can only be recognized by what is in it. */
    const contentId = async (): Promise<string> => {
      const reused = join(dataDir, "reused");
      await mkdir(reused, { recursive: true });
      await Promise.all((await readdir(reused)).map((name) => rm(join(reused, name), { recursive: true })));
      await cp(modulesDir, reused, { recursive: true });
      return identifyFolder(reused);
    };
    const before = id();
    await modules.install({ name: "contrib", version: "1.0.0" });
    await modules.install({ name: "@scope/other", version: "1.0.0" });
    const content = await contentId();
    // It is there already, as a dependency.
    await modules.install({ name: "shared", version: "1.0.0" });
    await modules.install({ name: "known", version: "1.1.0" });
    expect([id(), await contentId()]).toEqual([before, content]);
    expect(await list(opened)).toEqual(["@scope/other@1.0.0", "contrib@1.0.0", "known@1.1.0", "shared@1.0.0"]);
    // Its install script runs again.
    await modules.install({ name: "known", version: "1.1.0" });
    expect(id()).not.toBe(before);
    const rebuilt = id();
    await modules.remove("known");
    expect(id()).not.toBe(rebuilt);
    const [removed, removedContent] = [id(), await contentId()];
    await modules.install({ name: "contrib", version: "2.0.0" });
    expect(id()).not.toBe(removed);
    expect(await contentId()).not.toBe(removedContent);
    expect(await list(opened)).toEqual(["@scope/other@1.0.0", "contrib@2.0.0", "shared@1.0.0"]);
  });

  test("stays if a package whose install script was run has not changed", async () => {
    await using opened = await open((scripts) => [
      ...packages.filter(({ name }) => name !== "known"),
      { ...known, manifest: { scripts } },
      { name: "native", version: "1.0.0", manifest: { dependencies: { known: "1.0.0" } } },
    ]);
    const { modules, dataDir } = opened;
    const modulesDir = ensureModulesDir(join(dataDir, "modules"));
    await modules.install({ name: "native", version: "1.0.0" });
    expect(opened.hasRun()).toBe(true);
    await rm(join(dataDir, "../ran"));
    const before = identifyFolder(modulesDir);
    expect(await modules.install({ name: "contrib", version: "1.0.0" })).toMatchObject({ scriptsNotRun: [] });
    expect([identifyFolder(modulesDir), opened.hasRun()]).toEqual([before, false]);
    await modules.install({ name: "known", version: "1.0.0" });
    expect([identifyFolder(modulesDir) === before, opened.hasRun()]).toEqual([false, true]);
  });

  test("has all of what was being added, after however many steps the process was killed", async () => {
    await using opened = await open(() => packages);
    const { modules, dataDir } = opened;
    await modules.install({ name: "contrib", version: "1.0.0" });
    await modules.install({ name: "@scope/other", version: "1.0.0" });
    const modulesDir = join(dataDir, "modules");
    const paths = ["node_modules/@scope/other", "node_modules/shared", "package-lock.json", "package.json"];
    const adding = join(modulesDir, "adding-1");
    for (const steps of [0, 1, 3]) {
      await mkdir(adding);
      await writeFile(join(adding, "paths.json"), JSON.stringify(paths));
      for (const [at, path] of [...paths.entries()].slice(steps)) {
        await rename(join(modulesDir, path), join(adding, String(at)));
      }
      ensureModulesDir(modulesDir);
      expect(await list(opened)).toEqual(["@scope/other@1.0.0", "contrib@1.0.0"]);
      expect(existsSync(adding)).toBe(false);
      expect(existsSync(join(modulesDir, "node_modules/shared/package.json"))).toBe(true);
    }
    await modules.install({ name: "shared", version: "1.0.0" });
    expect(await list(opened)).toEqual(["@scope/other@1.0.0", "contrib@1.0.0", "shared@1.0.0"]);
  });

  test("is used without what was being added, if the list of it did not reach the disk", async () => {
    await using opened = await open(() => packages);
    const modulesDir = join(opened.dataDir, "modules");
    await opened.modules.install({ name: "contrib", version: "1.0.0" });
    for (const name of ["adding-1", "adding-2"]) {
      await mkdir(join(modulesDir, name, "0"), { recursive: true });
    }
    await writeFile(join(modulesDir, "adding-1", "paths.json"), "");
    ensureModulesDir(modulesDir);
    expect(listAdditions(modulesDir)).toEqual([]);
    await opened.modules.install({ name: "shared", version: "1.0.0" });
    expect(await list(opened)).toEqual(["contrib@1.0.0", "shared@1.0.0"]);
  });
});

describe("a folder that has as many modules as it can have", () => {
  const many = Array.from({ length: 200 }, (_, index) => ({ name: `module-${index}` }));
  const openFull = async (): Promise<Opened> => {
    const opened = await open(() => [contrib]);
    await writeModules(join(opened.dataDir, "modules"), many);
    return opened;
  };
  const problem =
    "contrib: at most 200 modules can be installed, and 200 are: remove some first. The modules remain as they were";
  const wanted = { name: "contrib", version: "1.0.0", integrity: undefined };

  test.each<[string, (modules: Modules) => Promise<unknown>]>([
    ["by itself", (modules) => modules.install({ name: "contrib", version: "latest" })],
    ["as a tarball", async (modules) => modules.install({ tarball: await pack(contrib) })],
    ["for a plan", (modules) => modules.compare([wanted])],
    [
      "for a revision",
      (modules) => modules.replace([wanted], { findTarball: async () => undefined, commit: async () => {} }),
    ],
  ])("gets no other one %s", async (_, change) => {
    await using opened = await openFull();
    await expect(change(opened.modules)).rejects.toMatchObject({ reason: "module_failed", message: problem });
    const list = await opened.modules.list();
    expect([list.length, list.some(({ name }) => name === "contrib")]).toEqual([200, false]);
  });
});

describe("versions with build metadata", () => {
  const build = (number: number) => ({
    name: "built",
    version: `1.0.0+build.${number}`,
    files: { "build.js": `${number}` },
  });
  const contentOf = ({ dataDir }: Opened, name = "built") =>
    readFile(join(dataDir, "modules/node_modules", name, "build.js"), "utf8");

  test("are installed from tarballs, one in place of the other", async () => {
    await using opened = await open(() => [contrib]);
    const { modules } = opened;
    for (const number of [1, 2]) {
      await modules.install({ tarball: await pack(build(number)) });
      await modules.install({ name: "contrib", version: "latest" });
      expect([(await modules.get("built")).version, await contentOf(opened)]).toEqual([
        `1.0.0+build.${number}`,
        `${number}`,
      ]);
    }
    expect(await readdir(join(opened.dataDir, "modules/uploads"))).toEqual([
      expect.stringMatching(/^built-1\.0\.0\+build\.2-\w+\.tgz$/),
    ]);
  });

  test("are installed from a folder by any range that includes them", async () => {
    const versions = { a: "latest", b: "1.0.0", c: "^1.0.0", d: "1.0.0+build.2" };
    await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-tarballs-"));
    for (const name of Object.keys(versions)) {
      await writeFile(join(folder.path, `${name}1.tgz`), await pack({ ...build(2), name }));
      await writeFile(join(folder.path, `${name}2.tgz`), await pack({ ...build(1), name }));
    }
    await using opened = await open(() => [], { tarballs: folder.path });
    const wanted = Object.entries(versions).map(([name, version]) => ({ name, version, integrity: undefined }));
    await opened.modules.replace(wanted, { findTarball: async () => undefined, commit: async () => {} });
    expect(await opened.modules.list()).toMatchObject(
      Object.keys(versions).map((name) => ({ name, version: "1.0.0+build.2" })),
    );
    const contents = await Promise.all(Object.keys(versions).map((name) => contentOf(opened, name)));
    expect(contents).toEqual(["2", "2", "2", "2"]);
    expect(await opened.modules.compare(wanted)).toMatchObject(wanted.map(() => ({ state: "present" })));
  });
});

test("takes back what was added if not all of it can be moved to its place", async () => {
  const names = ["a", "b", "c", "@scope/d", "e", "f"];
  const dependencies = Object.fromEntries(names.map((name) => [name, "1.0.0"]));
  const packages = [contrib, known, { name: "many", version: "1.0.0", manifest: { dependencies } }];
  let obstacle: string | undefined;
  await using opened = await open(() => [...packages, ...names.map((name) => ({ name, version: "1.0.0" }))], {
    onStep(step, dataDir) {
      if (step === "checking" && existsSync(join(dataDir, "modules/node_modules/contrib"))) {
        obstacle ??= join(dataDir, "modules/node_modules/@scope");
        writeFileSync(obstacle, "");
      }
    },
  });
  const { modules, dataDir } = opened;
  const modulesDir = join(dataDir, "modules");
  await modules.install({ name: "contrib", version: "1.0.0" });
  const before = await readdir(modulesDir, { recursive: true });
  const lists = await Promise.all(
    ["package.json", "package-lock.json"].map((name) => readFile(join(modulesDir, name), "utf8")),
  );
  await expect(modules.install({ name: "many", version: "1.0.0" })).rejects.toThrow("EEXIST");
  await rm(obstacle ?? "");
  ensureModulesDir(modulesDir);
  expect((await readdir(modulesDir, { recursive: true })).toSorted()).toEqual(before.toSorted());
  expect(
    await Promise.all(["package.json", "package-lock.json"].map((name) => readFile(join(modulesDir, name), "utf8"))),
  ).toEqual(lists);
});

test("says so if the disk is full", needs("the right to mount disks", canMount()), async () => {
  await using disk = await createDisk(8);
  await using opened = await open(() => [contrib, known], { parent: disk.path });
  const { modules } = opened;
  await modules.install({ name: "contrib", version: "latest" });
  await writeFile(join(disk.path, "fill"), Buffer.alloc(8 * 1024 * 1024)).catch(() => {});
  const changes: readonly [string, () => Promise<unknown>][] = [
    ["known", () => modules.install({ name: "known", version: "latest" })],
    ["contrib", () => modules.setEnabled("contrib", false)],
    ["contrib", () => modules.remove("contrib")],
  ];
  for (const [name, change] of changes) {
    await expect(change()).rejects.toMatchObject({
      reason: "module_failed",
      message: `${name}: there is no space left on the disk. The modules remain as they were`,
    });
  }
  await rm(join(disk.path, "fill"));
  expect(await modules.list()).toMatchObject([{ name: "contrib", isEnabled: true }]);
});
