import { type ChildProcess, execFile, spawn } from "node:child_process";
import { hash } from "node:crypto";
import { once } from "node:events";
import { readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readLanguage } from "../../src/palette/catalogs.ts";
import { Palette } from "../../src/palette/palette.ts";
import { parseTemplate } from "../../src/palette/template.ts";
import { listLoadedModules, noneDisabled, readDisabled } from "@flowgate/runtime/modules";
import { nodesOf, templatesOf } from "../../../runtime/test/modules/write-modules.ts";
import { writeFiles } from "../../../runtime/test/planted-code.ts";
import { createFolder } from "../../../../test/store/builders.ts";

const run = promisify(execFile);
const lists = { allow: ["*"], deny: [] };

function openPalette(modulesDir: string | undefined, changes: { deny?: string[] } = {}): Palette {
  const disabled = () => (modulesDir === undefined ? noneDisabled : readDisabled(modulesDir));
  return new Palette(listLoadedModules({ version: "5.0.7", modulesDir, lists: { ...lists, ...changes }, disabled }));
}

const help = (type: string, language?: string): string =>
  `<script type="text/html" data-help-name="${type}"${language === undefined ? "" : ` data-lang="${language}"`}>help</script>`;

/** The templates by their ids. They are too long to be shown. */
function sectionsOf(html: string): [id: string, hash: string][] {
  return html.split(/(?=<!-- --- \[)/).map((section) => [section.split("\n", 1)[0] ?? "", hash("sha256", section)]);
}

const subflow = {
  id: "abc",
  type: "subflow",
  name: "Packaged <subflow>",
  info: "Its *help*",
  category: "packaged",
  in: [{ x: 1, y: 1, wires: [{ id: "inner" }] }],
  out: [{ x: 1, y: 1, wires: [{ id: "inner", port: 0 }] }],
  env: [
    { name: "LIMIT", type: "num", value: "3", ui: { label: { "en-US": "Limit" } } },
    { name: "KEY", type: "cred", ui: { type: "cred" } },
  ],
  meta: { module: "contrib-subflows", type: "packaged", version: "1.2.3" },
  color: "#ff0000",
  flow: [{ id: "inner", type: "change", z: "abc", rules: [], wires: [[]] }],
};

/** The program of Node-RED's documentation, and others. */
const subflowModule = {
  "node_modules/contrib-subflows/package.json": JSON.stringify({
    name: "contrib-subflows",
    version: "1.2.3",
    "node-red": {
      nodes: {
        example: "example.js",
        required: "lib/required.js",
        several: "lib/several.js",
        data: "subflow.json",
        again: "again.js",
      },
    },
  }),
  "node_modules/contrib-subflows/subflow.json": JSON.stringify(subflow),
  "node_modules/contrib-subflows/example.js": `const fs = require("fs");
    const path = require("path");
    module.exports = function (RED) {
      const subflowFile = path.join(__dirname, "subflow.json");
      RED.nodes.registerSubflow(JSON.parse(fs.readFileSync(subflowFile)));
    };`,
  "node_modules/contrib-subflows/again.js": `module.exports = () => {}; // as registerSubflow("no-such-file.json") would`,
  "node_modules/contrib-subflows/lib/required.js": `module.exports = (RED) => RED.nodes.registerSubflow(require("./flows/unnamed"));`,
  "node_modules/contrib-subflows/lib/flows/unnamed.json": JSON.stringify({ ...subflow, id: "unnamed", meta: {} }),
  "node_modules/contrib-subflows/lib/several.js": `const { join } = require("node:path");
    const { readFileSync } = require("node:fs");
    module.exports = (RED) => {
      for (const file of [join(__dirname, "flows", "first.json"), join(__dirname, 'flows', 'second.json')]) {
        RED.nodes.registerSubflow(JSON.parse(readFileSync(file, "utf8")));
      }
    };`,
  "node_modules/contrib-subflows/lib/flows/first.json": JSON.stringify({ ...subflow, id: "first", meta: undefined }),
  "node_modules/contrib-subflows/lib/flows/second.json": JSON.stringify({ ...subflow, id: "second", meta: undefined }),
};

/** Modules with everything that the editor loads of one. */
async function writeAll(dir: string): Promise<void> {
  const manifest = (name: string, section: object, version = "1.2.3"): string =>
    JSON.stringify({ name, version, "node-red": section });
  await writeFiles(dir, {
    "package.json": JSON.stringify({
      dependencies: { one: "1.2.3", "@scope/two": "1.2.3", again: "1.2.3", "contrib-subflows": "1.2.3" },
    }),
    "node_modules/one/package.json": manifest("one", { nodes: { first: "lib/first.js", second: "second.cjs" } }),
    "node_modules/one/lib/first.js": nodesOf(["one a", "one b"]),
    "node_modules/one/lib/first.html": `${templatesOf(["one a", "one b"])}\n${help("one a")}${help("one a", "de")}<script>x()</script>`,
    "node_modules/one/lib/icons/one.svg": "<svg/>",
    "node_modules/one/lib/icons/one.png": "png",
    "node_modules/one/lib/icons/two.png": "png",
    "node_modules/one/lib/locales/en-US/first.json": JSON.stringify({ a: { b: "en", c: "en" }, n_plural: "many" }),
    "node_modules/one/lib/locales/de/first.json": JSON.stringify({ a: { b: "de" } }),
    "node_modules/one/second.cjs": nodesOf(["one c"]),
    "node_modules/one/second.html": templatesOf(["one c"]),
    "node_modules/one/locales/fr/second.html": help("one c"),
    "node_modules/one/resources/deep/file.js": "resource",
    "node_modules/@scope/two/package.json": manifest("@scope/two", {
      nodes: { two: "two.js" },
      plugins: { extra: "extra.js" },
    }),
    "node_modules/@scope/two/two.js": nodesOf(["two"]),
    "node_modules/@scope/two/two.html": templatesOf(["two"]),
    "node_modules/@scope/two/extra.html": "<script>plugin()</script>",
    "node_modules/again/package.json": manifest("again", { nodes: { two: "two.js" } }),
    "node_modules/again/two.js": nodesOf(["two"]),
    "node_modules/again/two.html": templatesOf(["two"]),
    "node_modules/newer/package.json": manifest("newer", { version: ">=99", nodes: { all: "all.js" } }),
    "node_modules/newer/all.js": nodesOf(["newer"]),
    "node_modules/newer/all.html": templatesOf(["newer"]),
    "node_modules/lacking/package.json": manifest("lacking", { dependencies: ["absent"], nodes: { all: "all.js" } }),
    "node_modules/lacking/all.js": nodesOf(["lacking"]),
    "node_modules/lacking/all.html": templatesOf(["lacking"]),
    ...subflowModule,
    "node_modules/plain/package.json": JSON.stringify({ name: "plain", version: "1.0.0" }),
  });
}

describe("the palette", () => {
  let folder: Awaited<ReturnType<typeof createFolder>>;
  let child: ChildProcess;
  let url: string;
  let palette: Palette;
  beforeAll(async () => {
    folder = await createFolder();
    await writeAll(folder.path);
    const program = fileURLToPath(new URL("../../../../test/fixtures/e2e/node-red-editor.ts", import.meta.url));
    child = spawn(process.execPath, [program, folder.path], { stdio: ["ignore", "pipe", "inherit"] });
    const [line] = (await once(createInterface(child.stdout as Readable), "line")) as [string];
    url = `http://127.0.0.1:${(JSON.parse(line) as { adminPort: number }).adminPort}`;
    palette = openPalette(folder.path);
  });
  afterAll(async () => {
    child?.kill("SIGKILL");
    await folder?.[Symbol.asyncDispose]();
  });

  async function ask(path: string, headers: Readonly<Record<string, string>> = {}): Promise<string> {
    return (await fetch(url + path, { headers })).text();
  }

  async function askJson(path: string): Promise<unknown> {
    // In a checkout of git, it says so.
    return JSON.parse((await ask(path, { accept: "application/json" })).replaceAll("-git", ""));
  }

  test.each(["en-US", "de", "de-CH", "fr", "ja", "xx"])(
    "has the templates of Node-RED's own editor, in %s",
    async (language) => {
      const headers = { accept: "text/html", "accept-language": language };
      const expected = sectionsOf(await ask("/nodes", headers));
      expect(sectionsOf(await palette.page("node", language))).toEqual(expected);
      expect(expected.map(([id]) => id)).toContain("<!-- --- [red-module:one/first] --- -->");
      expect(expected.map(([id]) => id)).toContain("<!-- --- [red-module:contrib-subflows/example] --- -->");
      expect(await palette.page("plugin", language)).toBe(await ask("/plugins", headers));
    },
  );

  test("lists the same nodes, plugins and icons", async () => {
    expect(await palette.list("node")).toEqual(await askJson("/nodes"));
    expect(await palette.list("plugin")).toEqual(await askJson("/plugins"));
    expect(await palette.icons()).toEqual(await askJson("/icons"));
  });

  test.each(["en-US", "de", "de-CH", "xx"])("has the same messages in %s", async (language) => {
    expect(await palette.messages("node", language)).toEqual(await askJson(`/nodes/messages?lng=${language}`));
    expect(await palette.messages("plugin", language)).toEqual(await askJson(`/plugins/messages?lng=${language}`));
    expect(await palette.messagesOf("one/first", language)).toEqual(
      await askJson(`/nodes/one/first/messages?lng=${language}`),
    );
  });

  test("has the same details of a set and of a module", async () => {
    const html = await ask("/nodes/one/first", { accept: "text/html", "accept-language": "de" });
    expect(await palette.template("node", "one/first", "de")).toBe(html);
    expect(await palette.info("node", "@scope/two/two")).toEqual(await askJson("/nodes/@scope/two/two"));
    const { path: _, ...module } = (await askJson("/nodes/@scope/two")) as Record<string, unknown>;
    expect(await palette.moduleInfo("@scope/two")).toEqual(module);
    expect(await palette.template("node", "one/absent", "de")).toBeUndefined();
    expect(await palette.info("plugin", "one/first")).toBeUndefined();
    expect(await palette.moduleInfo("absent")).toBeUndefined();
  });

  test("finds icons and resources inside of a module only", async () => {
    await symlink("/etc/hostname", `${folder.path}/node_modules/one/resources/link`);
    const read = async (path: string | undefined): Promise<string | undefined> => path && readFile(path, "utf8");
    expect(await read(await palette.findIcon("one", "one.svg"))).toBe("<svg/>");
    expect(await palette.findIcon("one", "inject.svg")).toMatch(/icons\/inject\.svg$/);
    expect(await palette.findIcon("one", "../first.js")).toBeUndefined();
    expect(await palette.findIcon("absent", "absent.svg")).toBeUndefined();
    expect(await read(await palette.findResource("one", "deep/file.js"))).toBe("resource");
    for (const path of [
      "../package.json",
      "deep/../../package.json",
      "link",
      "deep",
      "absent",
      "a\0b",
      "/etc/hostname",
    ]) {
      expect(await palette.findResource("one", path)).toBeUndefined();
    }
    expect(await palette.findResource("@scope/two", "file.js")).toBeUndefined();
  });
});

test("modules that are disabled are listed, those that the lists deny are not, and neither is loaded", async () => {
  await using folder = await createFolder();
  await writeAll(folder.path);
  await writeFile(
    `${folder.path}/package.json`,
    JSON.stringify({ dependencies: { one: "1.2.3" }, flowgate: { disabled: ["one"] } }),
  );
  const palette = openPalette(folder.path, { deny: ["again", "contrib-*"] });
  const sets = (await palette.list("node")).filter(({ module }) => module !== "node-red");
  expect(sets.map(({ id, enabled }) => [id, enabled])).toEqual([
    ["@scope/two/two", true],
    ["one/first", false],
    ["one/second", false],
  ]);
  expect(sectionsOf(await palette.page("node", "en-US")).filter(([id]) => id.includes("module:one/"))).toEqual([]);
});

test("modules that are installed or removed later are found", async () => {
  await using folder = await createFolder();
  await writeFiles(folder.path, { "package.json": "{}" });
  const palette = openPalette(folder.path);
  const own = sectionsOf(await palette.page("node", "en-US"));
  await writeAll(folder.path);
  expect((await palette.list("node")).map(({ id }) => id)).toContain("@scope/two/two");
  await rm(`${folder.path}/node_modules`, { recursive: true });
  await writeFiles(folder.path, { "package.json": "{ }" });
  expect(sectionsOf(await palette.page("node", "en-US"))).toEqual(own);
  expect(sectionsOf(await openPalette(undefined).page("node", "en-US"))).toEqual(own);
});

test("what could not be read for lack of file descriptors is read again", async () => {
  await using folder = await createFolder();
  await writeAll(folder.path);
  await writeFiles(folder.path, { "node_modules/one/locales/de/second.html": help("one c") });
  const program = fileURLToPath(new URL("../../../../test/fixtures/node-red/few-descriptors.ts", import.meta.url));
  const { stdout } = await run("sh", [
    "-c",
    'ulimit -n 1024 && exec "$@"',
    "sh",
    process.execPath,
    program,
    folder.path,
  ]);
  expect(JSON.parse(stdout)).toEqual({
    list: "EMFILE",
    ids: ["one/first", "one/second"],
    page: "EMFILE",
    hasHelp: true,
  });
});

test("malformed modules are left out", async () => {
  await using folder = await createFolder();
  const files = (name: string, manifest: string): Record<string, string> => ({
    [`node_modules/${name}/package.json`]: manifest,
    [`node_modules/${name}/all.js`]: "",
    [`node_modules/${name}/all.html`]: templatesOf([name]),
  });
  const section = (nodes: object): string => JSON.stringify({ name: "x", version: "1.0.0", "node-red": { nodes } });
  await writeFiles(folder.path, {
    "package.json": "{}",
    ...files("text", "not JSON"),
    ...files("outside", section({ all: "../text/all.js" })),
    ...files("number", section({ all: 1 })),
    ...files("set", section({ "a] --- --><script>": "all.js" })),
    ...files("named", JSON.stringify({ name: "<b>", version: "1.0.0", "node-red": { nodes: { all: "all.js" } } })),
  });
  const sets = (await openPalette(folder.path).list("node")).filter(({ module }) => module !== "node-red");
  expect(sets).toEqual([]);
});

test("a template is split in linear time, whatever it contains", () => {
  for (const text of [
    "<script ".repeat(200_000),
    `<script data-help-name="a">`.repeat(50_000),
    "<".repeat(1_000_000),
  ]) {
    expect(parseTemplate(text).main).toBe(text);
  }
  const template = `a<SCRIPT data-template-name = 'x'>b</script><script data-help-name="x" data-lang="de">c</SCRIPT>d`;
  expect(parseTemplate(template)).toEqual({
    types: ["x"],
    main: "a<SCRIPT data-template-name = 'x'>b</script>d",
    help: new Map([["de", `<script data-help-name="x" data-lang="de">c</SCRIPT>`]]),
  });
});

test("only languages are taken for names of folders", () => {
  expect(["de", "pt-BR", "zh-Hans", "..", "de/../..", "", "*", null].map(readLanguage)).toEqual([
    "de",
    "pt-BR",
    "zh-Hans",
    ...Array.from({ length: 5 }, () => "en-US"),
  ]);
});
