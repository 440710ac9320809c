import { mkdir, mkdtempDisposable, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { checkFlows, locateProblem } from "../../src/flow-files/check-flows.ts";
import { readFlowFiles } from "../../src/flow-files/read-files.ts";

/** Writes files to a new folder. */
async function createFiles(files: Record<string, string | Uint8Array>) {
  const folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder.path, name)), { recursive: true });
    await writeFile(join(folder.path, name), content);
  }
  return folder;
}

const noStdin = () => Promise.reject(new Error("stdin is not used"));

/** The error for files, with names relative to their folder; "" if they are valid. */
async function problemsOf(files: Record<string, string | Uint8Array>, paths = Object.keys(files)): Promise<string> {
  await using folder = await createFiles(files);
  try {
    checkFlows(
      await readFlowFiles(
        paths.map((path) => join(folder.path, path)),
        noStdin,
      ),
    );
    return "";
  } catch (error) {
    return (error as Error).message.replaceAll(`${folder.path}/`, "").replaceAll(folder.path, ".");
  }
}

describe("reads", () => {
  const nodes = [{ id: "a", type: "tab", label: "A" }];

  test.each([
    ["an array in JSON", "flows.json", JSON.stringify(nodes)],
    ["the response of GET /flows", "flows.json", JSON.stringify({ flows: nodes })],
    ["YAML", "flows.yml", "- id: a\n  type: tab\n  label: A\n"],
    ["an object in YAML", "flows.yaml", "flows:\n  - { id: a, type: tab, label: A }\n"],
    ["JSON by its content", "flows.txt", JSON.stringify(nodes)],
    ["YAML by its content", "flows", "- {id: a, type: tab, label: A}"],
    ["a byte order mark and Windows line ends", "flows.yaml", "\ufeff- id: a\r\n  type: tab\r\n  label: A\r\n"],
  ])("%s", async (_, name, content) => {
    await using folder = await createFiles({ [name]: content });
    const { flows } = checkFlows(await readFlowFiles([join(folder.path, name)], noStdin));
    expect(flows).toMatchObject([{ id: "a", type: "tab", label: "A" }]);
  });

  test("the revision and credentials", async () => {
    const content = {
      flows: [{ id: "a", type: "b", credentials: { user: "u" } }],
      rev: "r1",
      credentials: { a: { password: "p" } },
    };
    const files = await readFlowFiles(["-"], () => Promise.resolve(Buffer.from(JSON.stringify(content))));
    expect(checkFlows(files)).toMatchObject({
      flows: [{ credentials: { values: { user: "u" } } }],
      rev: "r1",
      credentials: { nodes: { a: { values: { password: "p" } } } },
    });
  });

  test("several files in their order, and folders of files in the order of their names, tabs first", async () => {
    await using folder = await createFiles({
      "last.yaml": "[{id: z, type: tab}]",
      "flows/b.yaml": "[{id: b1, type: tab}, {id: b2, type: inject, x: 0, y: 0}]",
      "flows/a.json": '[{"id": "a1", "type": "tab"}, {"id": "a2", "type": "inject", "x": 0, "y": 0}]',
      "flows/.hidden.yaml": "no flows",
      "flows/notes.txt": "no flows",
    });
    const paths = [join(folder.path, "flows"), join(folder.path, "last.yaml")];
    const { flows } = checkFlows(await readFlowFiles(paths, noStdin));
    expect(flows.map(({ id }) => id)).toEqual(["a1", "b1", "a2", "b2", "z"]);
  });
});

describe("reports", () => {
  test.each<[what: string, files: Record<string, string | Uint8Array>, message: string]>([
    [
      "malformed JSON",
      { "a.json": '[\n  {"id": "a",}\n]' },
      "a.json:2:14: is not valid JSON: a key in double quotes was expected",
    ],
    ["JSON that ends unexpectedly", { "a.json": '[\n  {"id": "a"' }, "a.json:2:13: is not valid JSON: unexpected end"],
    [
      "a repeated key in JSON",
      { "a.json": '[\n  {"id": "a",\n   "id": "b", "type": "t"}\n]' },
      "a.json:3:4: [0].id: duplicate key",
    ],
    ["a repeated key in YAML", { "a.yaml": "- id: a\n  type: t\n  id: b\n" }, "a.yaml:3:3: duplicate key"],
    ["a tab in YAML", { "a.yaml": "- id: a\n\ttype: t\n" }, "a.yaml:2:2: this is not valid YAML"],
    [
      "a merge conflict in YAML",
      { "a.yaml": "- id: a\n<<<<<<< HEAD\n  type: t\n=======\n  type: u\n>>>>>>> other\n" },
      "a.yaml:2:1: has a merge conflict: edit the lines from <<<<<<< to >>>>>>>",
    ],
    [
      "a merge conflict in JSON",
      { "a.json": '[\n<<<<<<< HEAD\n  {"id": "a"}\n=======\n>>>>>>> other\n]' },
      "a.json:2:1: has a merge conflict: edit the lines from <<<<<<< to >>>>>>>",
    ],
    [
      "aliases without anchors, and before their anchors",
      { "a.yaml": "- *a\n- &a {id: a, type: t}\n- *b\n" },
      "a.yaml:1:3: an alias without an anchor; text that begins with * needs quotes\na.yaml:3:3: an alias without an anchor; text that begins with * needs quotes",
    ],
    [
      "control characters in names and keys, which are escaped",
      { "a\x1b[2J.json": '{"flows": [], "\x1b[2J": 1}'.replace("\x1b", "\\u001b"), "b.json": '{"a\\u001b": ' },
      "a\\x1b[2J.json:1:15: \\x1b[2J: unknown key: only flows, rev, credentials and modules are allowed\nb.json:1:13: is not valid JSON: unexpected end",
    ],
    [
      "an integer that would be rounded, in YAML",
      { "a.yaml": "- id: a\n  type: t\n  n: 9007199254740993\n" },
      "a.yaml:3:6: must be an integer that a double can represent, or a string",
    ],
    [
      "an integer that would be rounded, in JSON",
      { "a.json": '[{"id": "a", "type": "t",\n"n": 9007199254740993}]' },
      "a.json:2:6: must be an integer that a double can represent, or a string",
    ],
    ["an empty file", { "a.yaml": "\n" }, "a.yaml:1:1: is empty: it must contain an array of nodes, [] for none"],
    [
      "a text that is not UTF-8",
      { "a.yaml": Uint8Array.of(0x5b, 0xff, 0x5d) },
      "a.yaml:1:1: is not UTF-8: save it as UTF-8",
    ],
    [
      "another content",
      { "package.json": '{"name": "x"}' },
      "package.json:1:1: must be an array of nodes, as Node-RED exports it, or an object with flows, as GET /flows returns it",
    ],
    [
      "another key",
      { "a.yaml": "flows: []\nrevision: r\n" },
      "a.yaml:2:1: revision: unknown key: only flows, rev, credentials and modules are allowed",
    ],
    [
      "a revision that is not text",
      { "a.yaml": "flows: []\nrev: null\n" },
      "a.yaml:2:1: rev: must be a string, not null",
    ],
    ["a node that is not an object", { "a.yaml": "- id: a\n  type: t\n- 1\n" }, "a.yaml:3:3: must be an object"],
    [
      "wires that are not arrays, with the line in the file of a folder",
      { "f/a.yaml": "- {id: a, type: tab}\n", "f/b.yaml": "- id: b\n  type: t\n  wires:\n    - c\n" },
      "f/b.yaml:4:7: wires[0]: must be an array of node ids",
    ],
    [
      "the problems of several nodes and files",
      { "a.yaml": "- id: a\n  type: ''\n- id: b\n", "b.json": '[\n{"id": 1, "type": "t"}]' },
      "a.yaml:3:3: type: is missing\nb.json:2:2: id: must be a string",
    ],
  ])("%s", async (_, files, message) => {
    const paths = Object.keys(files).some((name) => name.startsWith("f/")) ? ["f"] : Object.keys(files);
    expect(await problemsOf(files, paths)).toBe(message);
  });

  test("an id that two files have, with both places", async () => {
    const files = {
      "a.yaml": "- id: t\n  type: tab\n- id: n\n  type: x\n",
      "b.json": '[\n  {"type": "x", "id": "n"}\n]',
    };
    expect(await problemsOf(files)).toBe('b.json:2:17: id: must be unique, and a.yaml:3:3 is "n" too');
  });

  test("syntax errors of all files", async () => {
    expect(await problemsOf({ "a.json": "[", "b.yaml": "- id: a\n  id: b\n" })).toBe(
      "a.json:1:2: is not valid JSON: unexpected end\nb.yaml:2:3: duplicate key",
    );
  });

  test("the first of many problems", async () => {
    const nodes = Array.from({ length: 100 }, (_, index) => `- id: ${index}\n`).join("");
    const lines = (await problemsOf({ "a.yaml": nodes })).split("\n");
    expect(lines).toHaveLength(21);
    expect(lines.at(-1)).toBe("and 80 more problems");
  });

  test("many aliases, in a time that does not grow with their square", async () => {
    const nodes = Array.from({ length: 3_000 }, () => "- *a\n").join("");
    expect(await problemsOf({ "a.yaml": `- &a {id: a, type: t}\n${nodes}` })).toBe(
      "a.yaml:1:1: its aliases expand to too many values",
    );
  });

  test("a device in a folder, which is not read", async () => {
    await using folder = await createFiles({});
    await symlink("/dev/null", join(folder.path, "a.yaml"));
    await expect(readFlowFiles([folder.path], noStdin)).rejects.toThrow(
      `${folder.path}/a.yaml: is not a regular file: remove it`,
    );
  });

  test.each<[what: string, plant: (path: string) => Promise<unknown>]>([
    ["a folder", (path) => mkdir(path)],
    ["a symbolic link", (path) => symlink("a.yaml", path)],
  ])("%s in place of the file of modules", async (what, plant) => {
    await using folder = await createFiles({ "a.yaml": "- {id: a, type: tab}\n" });
    const message = `is ${what}, but a file with the modules of the flows is expected here: move it, or replace it by a file`;
    await plant(join(folder.path, "modules"));
    await expect(readFlowFiles([folder.path], noStdin)).rejects.toThrow(`${folder.path}/modules: ${message}`);
    await plant(join(folder.path, "a.yaml.modules"));
    await expect(readFlowFiles([join(folder.path, "a.yaml")], noStdin)).rejects.toThrow(
      `${folder.path}/a.yaml.modules: ${message}`,
    );
  });

  test("a second revision", async () => {
    expect(await problemsOf({ "a.yaml": "flows: []\nrev: r\n", "b.yaml": "flows: []\nrev: r\n" })).toBe(
      "b.yaml:2:1: rev: only one file may have it, and a.yaml has it too",
    );
  });

  test("credentials beside the nodes of a folder", async () => {
    expect(await problemsOf({ "f/a.yaml": "flows: []\ncredentials: {}\n" }, ["f"])).toBe(
      "f/a.yaml:2:1: only the nodes of a file in a folder are read: keep only the array of nodes",
    );
  });

  test("a path without flows", async () => {
    expect(await problemsOf({}, ["none"])).toBe("none: there is no such file or folder: correct the path");
    expect(await problemsOf({ "f/a.txt": "" }, ["f"])).toBe(
      "f: has no files of flows (.yaml, .yml or .json): correct the path, or export flows to it",
    );
  });

  test("nothing of the value of a credential", async () => {
    const problem = await problemsOf({ "a.yaml": "- id: a\n  type: t\n  credentials:\n    password: [hunter2]\n" });
    expect(problem).toBe("a.yaml:4:5: credentials.password: must be a string");
  });
});

test("locates the errors of a server", async () => {
  await using folder = await createFiles({
    "a.yaml": "- id: a\n  type: t\n  'a b':\n    - 1\n",
    "b.yaml": "- {id: b, type: t}",
  });
  const paths = ["a.yaml", "b.yaml"].map((name) => join(folder.path, name));
  const files = await readFlowFiles(paths, noStdin);
  const [a, b] = paths;
  expect(locateProblem(files, "flows[0]['a b'][0]: is wrong")).toEqual({
    file: a,
    line: 4,
    column: 7,
    message: "['a b'][0]: is wrong",
  });
  expect(locateProblem(files, "flows[1].type: is not that of flows[0]")).toEqual({
    file: b,
    line: 1,
    column: 11,
    message: `type: is not that of ${a}:1:3`,
  });
  expect(locateProblem(files, "another revision is active")).toBeUndefined();
  expect(locateProblem(files, "flows[7].id: is wrong")).toBeUndefined();
});
