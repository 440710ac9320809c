import { chmod, lstat, mkdir, mkdtempDisposable, readFile, rename, stat, symlink, writeFile } from "node:fs/promises";
import { globSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { checkFlows } from "../../src/flow-files/check-flows.ts";
import { exportFile } from "../../src/flow-files/write-file.ts";
import { exportFolder } from "../../src/flow-files/export-folder.ts";
import { readFlowFiles } from "../../src/flow-files/read-files.ts";
import type { FlowNode } from "@flowgate/flows";
import { onLinux } from "../../../../test/needs.ts";

const openFolder = () => mkdtempDisposable(join(tmpdir(), "flowgate-"));

/** The names of all files in a folder. */
function filesOf(folder: string): string[] {
  return globSync("**/*", { cwd: folder, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .toSorted();
}

async function put(folder: string, name: string, text: string): Promise<void> {
  await mkdir(dirname(join(folder, name)), { recursive: true });
  await writeFile(join(folder, name), text);
}

async function readIds(folder: string): Promise<string[]> {
  const files = await readFlowFiles([folder], () => Promise.reject(new Error("stdin is not used")));
  return checkFlows(files).flows.map(({ id }) => id);
}

async function failureOf(folder: string, promise: Promise<unknown>): Promise<string> {
  const error: unknown = await promise.then(
    () => new Error("no failure"),
    (error: unknown) => error,
  );
  return (error as Error).message.replaceAll(`${folder}/`, "");
}

const tab = (id: string, label: string): FlowNode => ({ id, type: "tab", label });
const node = (id: string, z: string): FlowNode => ({ id, type: "inject", z, x: 0, y: 0, wires: [] });

test("writes files to be reviewed, without credentials", async () => {
  await using folder = await openFolder();
  const flows = [
    tab("t1", "Heating"),
    { id: "s1", type: "subflow", name: "Try again" },
    { id: "c1", type: "mqtt-broker", port: "1883", name: "yes", credentials: { password: "hunter2" } },
    {
      wires: [["n2"], []],
      func: "const limit = 20;\nreturn msg;\n",
      y: 40,
      x: 120,
      name: "Limit",
      type: "function",
      z: "t1",
      id: "n1",
      libs: [],
      outputs: 2,
      rules: [{ t: "set", p: "payload" }],
    },
  ];
  expect(await exportFolder(folder.path, flows)).toEqual({
    written: ["tabs/heating.yaml", "subflows/try-again.yaml", "global.yaml", "index.yaml"],
    removed: [],
  });
  expect(await readFile(join(folder.path, "tabs/heating.yaml"), "utf8")).toBe(`- id: t1
  type: tab
  label: Heating

- id: n1
  type: function
  z: t1
  name: Limit
  func: |
    const limit = 20;
    return msg;
  libs: []
  outputs: 2
  rules:
    - t: set
      p: payload
  x: 120
  y: 40
  wires: [[n2], []]
`);
  expect(await readFile(join(folder.path, "global.yaml"), "utf8")).toBe(
    '- id: c1\n  type: mqtt-broker\n  name: "yes"\n  port: "1883"\n',
  );
  expect(await readFile(join(folder.path, "index.yaml"), "utf8")).toMatch(
    /^(?:#.*\n)+flowgateExport: 1\nfiles:\n {2}- tabs\/heating.yaml\n {2}- subflows\/try-again.yaml\n {2}- global.yaml\n$/,
  );
});

test("writes nothing if nothing has changed, whatever the order of properties", async () => {
  await using folder = await openFolder();
  await exportFolder(folder.path, [{ id: "a", type: "tab", label: "A", info: "i", env: [] }]);
  const again = await exportFolder(folder.path, [{ env: [], info: "i", label: "A", type: "tab", id: "a" }]);
  expect(again).toEqual({ written: [], removed: [] });
});

test("names files safely and uniquely on any file system", async () => {
  await using folder = await openFolder();
  const labels = ["../x", "X", "/etc/passwd", "", "!!!", "CON", "Küche", "キッチン", "a/b\\c", "a".repeat(300), "ﬁx"];
  await exportFolder(
    folder.path,
    labels.map((label, index) => tab(`t${index}`, label)),
  );
  expect(filesOf(folder.path)).toEqual(
    [
      "index.yaml",
      "tabs/x.yaml",
      "tabs/x-2.yaml",
      "tabs/etc-passwd.yaml",
      "tabs/tab.yaml",
      "tabs/tab-2.yaml",
      "tabs/con-tab.yaml",
      "tabs/kuche.yaml",
      "tabs/キッチン.yaml",
      "tabs/a-b-c.yaml",
      `tabs/${"a".repeat(50)}.yaml`,
      "tabs/fix.yaml",
    ].toSorted(),
  );
});

test("keeps the file of a tab that is renamed, and one that the user has renamed", async () => {
  await using folder = await openFolder();
  await exportFolder(folder.path, [tab("a", "Heating"), tab("b", "Lights")]);
  await rename(join(folder.path, "tabs/lights.yaml"), join(folder.path, "tabs/my lights.yaml"));
  const result = await exportFolder(folder.path, [tab("a", "Cooling"), tab("b", "Lamps"), tab("c", "Heating")]);
  expect(result).toEqual({
    written: ["tabs/heating.yaml", "tabs/my lights.yaml", "tabs/heating-2.yaml", "index.yaml"],
    removed: [],
  });
  expect(await readIds(folder.path)).toEqual(["a", "b", "c"]);
});

test("leaves the file of modules as it is where these are not known, and removes it where there are none", async () => {
  await using folder = await openFolder();
  const modules = [{ name: "contrib-one", version: "1.0.0" }];
  await exportFolder(folder.path, [tab("a", "A")], { modules });
  const written = await readFile(join(folder.path, "modules"), "utf8");
  expect(written).toContain("contrib-one");
  expect(await exportFolder(folder.path, [tab("a", "A")])).toEqual({ written: [], removed: [] });
  expect(await readFile(join(folder.path, "modules"), "utf8")).toBe(written);
  expect(await exportFolder(folder.path, [tab("a", "A")], { modules: [] })).toEqual({
    written: [],
    removed: ["modules"],
  });
});

test.each<[what: string, plant: (path: string) => Promise<unknown>]>([
  ["another file", (path) => writeFile(path, "- name: contrib-one\n")],
  ["a file that is not YAML", (path) => writeFile(path, "{{")],
  ["a folder", (path) => mkdir(path)],
])("writes nothing where %s is at the place of the modules", async (_, plant) => {
  await using folder = await openFolder();
  await exportFolder(folder.path, [tab("a", "A")]);
  await plant(join(folder.path, "modules"));
  const before = filesOf(folder.path);
  const modules = [{ name: "contrib-one", version: "1.0.0" }];
  expect(await failureOf(folder.path, exportFolder(folder.path, [tab("b", "B")], { modules }))).toBe(
    "modules: was not written by an export: move or remove it",
  );
  expect(filesOf(folder.path)).toEqual(before);
});

test("writes nothing if one of the files can't be written", async () => {
  await using folder = await openFolder();
  await exportFolder(folder.path, [tab("a", "A")]);
  await mkdir(join(folder.path, "subflows", "try-again.yaml"), { recursive: true });
  const before = filesOf(folder.path);
  const flows: FlowNode[] = [tab("b", "B"), { id: "s1", type: "subflow", name: "Try again" }];
  expect(await failureOf(folder.path, exportFolder(folder.path, flows))).toContain(
    "subflows/try-again.yaml: is a folder",
  );
  expect(filesOf(folder.path)).toEqual(before);
});

test("removes the files of tabs that exist no more, and no others", async () => {
  await using folder = await openFolder();
  await exportFolder(folder.path, [tab("a", "A"), tab("b", "B"), { id: "c", type: "mqtt-broker" }]);
  for (const name of ["README.md", "package.json", "tabs/notes.txt", "other/b.yaml", ".hidden/b.yaml"]) {
    await put(folder.path, name, "mine");
  }
  expect(await exportFolder(folder.path, [tab("a", "A")])).toEqual({
    written: ["index.yaml"],
    removed: ["global.yaml", "tabs/b.yaml"],
  });
  expect(filesOf(folder.path)).toEqual([
    "README.md",
    "index.yaml",
    "other/b.yaml",
    "package.json",
    "tabs/a.yaml",
    "tabs/notes.txt",
  ]);
  expect(await readIds(folder.path)).toEqual(["a"]);
});

test("keeps the format of the folder, and replaces its files if another one is chosen", async () => {
  await using folder = await openFolder();
  await exportFolder(folder.path, [tab("a", "A")], { format: "json" });
  await exportFolder(folder.path, [tab("a", "A"), tab("b", "B")]);
  expect(filesOf(folder.path)).toEqual(["index.yaml", "tabs/a.json", "tabs/b.json"]);
  await exportFolder(folder.path, [tab("a", "A"), tab("b", "B")], { format: "yaml" });
  expect(filesOf(folder.path)).toEqual(["index.yaml", "tabs/a.yaml", "tabs/b.yaml"]);
});

test("reads tabs whose files were added and removed by hand", async () => {
  await using folder = await openFolder();
  // The nodes of both tabs are interleaved.
  await exportFolder(folder.path, [tab("a", "A"), tab("b", "B"), node("a1", "a"), node("b1", "b"), node("a2", "a")]);
  await put(folder.path, "tabs/c.yaml", "[{id: c, type: tab}, {id: c1, type: inject, z: c, x: 0, y: 0}]");
  expect(await readIds(folder.path)).toEqual(["a", "b", "c", "a1", "b1", "a2", "c1"]);
  await put(folder.path, "tabs/b.yaml", "[]");
  expect(await readIds(folder.path)).toEqual(["a", "c", "a1", "a2", "c1"]);
});

test("recognizes its files after an export that was interrupted before it wrote the index", async () => {
  await using folder = await openFolder();
  await exportFolder(folder.path, [tab("a", "A"), { id: "c", type: "mqtt-broker" }]);
  await rename(join(folder.path, "index.yaml"), join(folder.path, "index.bak"));
  await exportFolder(folder.path, [tab("a", "New name"), { id: "c", type: "mqtt-broker" }]);
  expect(filesOf(folder.path)).toEqual(["global.yaml", "index.bak", "index.yaml", "tabs/a.yaml"]);
});

test.each([
  [
    "an index of something else",
    "index.yaml",
    "title: Home\n",
    'index.yaml:1:1: is not an index that "flowgate export" has written: rename the file, or use another folder',
  ],
  [
    "an index that leads out of the folder",
    "index.yaml",
    "flowgateExport: 1\nfiles:\n  - ../../etc/hosts.yaml\n",
    'index.yaml:3:5: must be the name of a file such as "tabs/a.yaml", "subflows/a.yaml" or "global.yaml"',
  ],
  [
    "an index of a later version",
    "index.yaml",
    "flowgateExport: 2\n",
    "index.yaml:1:1: was written by another version of Flowgate: use that version or a newer one",
  ],
  [
    "flows of someone else",
    "global.yaml",
    "- {id: x, type: y}\n",
    "global.yaml:1:1: was not written by an export, and its nodes belong to no exported file of this name: move or remove it",
  ],
  [
    "a second file with the nodes of a tab",
    "tabs/more.yaml",
    "- {id: a1, type: inject, z: a}\n",
    "tabs/more.yaml:1:1: was not written by an export, and its nodes belong to no exported file of this name: move or remove it",
  ],
  ["a file that can't be read", "tabs/a.yaml", "- id: a\n  id: b\n", "tabs/a.yaml:2:3: duplicate key"],
])("writes nothing to a folder with %s", async (_, name, text, message) => {
  await using folder = await openFolder();
  await put(folder.path, name, text);
  const flows = [tab("a", "A"), node("a1", "a"), { id: "c", type: "mqtt-broker" }];
  expect(await failureOf(folder.path, exportFolder(folder.path, flows))).toBe(message);
  expect(filesOf(folder.path)).toEqual([name]);
  expect(await readFile(join(folder.path, name), "utf8")).toBe(text);
});

test("does not follow a symbolic link out of the folder", async () => {
  await using folder = await openFolder();
  await put(folder.path, "other/mine.yaml", "- {id: a, type: tab}\n");
  await put(folder.path, "flows/index.yaml", "flowgateExport: 1\nfiles:\n  - tabs/mine.yaml\n");
  await symlink("../other", join(folder.path, "flows/tabs"));
  expect(await failureOf(folder.path, exportFolder(join(folder.path, "flows"), []))).toBe(
    "flows/tabs: is a symbolic link, which an export does not follow: replace it by a folder",
  );
  expect(filesOf(folder.path)).toEqual(["flows/index.yaml", "other/mine.yaml"]);
});

test("rejects a file as the folder, and a folder as the index", async () => {
  await using folder = await openFolder();
  await put(folder.path, "file", "");
  await mkdir(join(folder.path, "flows/index.yaml"), { recursive: true });
  const failures = ["file", "flows"].map((name) =>
    failureOf(folder.path, exportFolder(join(folder.path, name), [tab("a", "A")])),
  );
  expect(await Promise.all(failures)).toEqual([
    "file/tabs/a.yaml: a part of this path is a file: remove it, or choose another place",
    "flows/index.yaml: is a folder, but a file is required: specify a file, or rename the folder",
  ]);
});

test("rejects a folder below one that can't contain files", onLinux, async () => {
  await expect(exportFolder("/proc/flowgate/kitchen", [tab("t1", "Kitchen")])).rejects.toThrow(
    "/proc/flowgate/kitchen/tabs: can't contain files: choose another place",
  );
});

test("keeps the permissions of a file, and a link to it", async () => {
  await using folder = await openFolder();
  const [file, link] = ["private.yaml", "link.yaml"].map((name) => join(folder.path, name)) as [string, string];
  await writeFile(file, "[]");
  await chmod(file, 0o600);
  await symlink("private.yaml", link);
  await exportFile(link, [tab("a", "A")]);
  expect(await readFile(file, "utf8")).toBe("- id: a\n  type: tab\n  label: A\n");
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect((await lstat(link)).isSymbolicLink()).toBe(true);
});
