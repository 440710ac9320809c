import { createCipheriv, hash } from "node:crypto";
import { mkdtempDisposable, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { endpoint } from "../e2e/flow-builders.ts";
import { type Service, startService, withoutRuntime } from "../e2e/service.ts";
import { startToolService } from "../e2e/tools.ts";
import { pack } from "../../packages/runtime/test/modules/npm-registry.ts";
import { nodesOf, templatesOf } from "../../packages/runtime/test/modules/write-modules.ts";
import { writeFiles } from "../../packages/runtime/test/planted-code.ts";
import { runCommand } from "./run-command.ts";

const openFolder = () => mkdtempDisposable(join(tmpdir(), "flowgate-"));
const withProjects = "module.exports = { editorTheme: { projects: { enabled: true } } };";
const broker = { id: "b", type: "mqtt-broker", name: "main", broker: "127.0.0.1", port: "1", autoConnect: false };

/** As Node-RED encrypts credentials. */
function encrypt(secret: string, sets: object): string {
  const iv = Buffer.alloc(16, 7);
  const cipher = createCipheriv("aes-256-ctr", hash("sha256", secret, "buffer"), iv);
  const text = cipher.update(JSON.stringify(sets), "utf8", "base64") + cipher.final("base64");
  return JSON.stringify({ $: iv.toString("hex") + text });
}

/** A user folder with an active project, another one, and the flows of before. */
const projectFiles = {
  "settings.js": withProjects,
  ".config.projects.json": JSON.stringify({ activeProject: "p1", projects: { p1: { credentialSecret: "of p1" } } }),
  "flows.json": "[]",
  "projects/p1/package.json": JSON.stringify({
    name: "p1",
    "node-red": { settings: { flowFile: "flow.json", credentialsFile: "secrets.json" } },
  }),
  "projects/p1/flow.json": JSON.stringify([...endpoint("/hello", `msg.payload = "of p1"`), broker]),
  "projects/p1/secrets.json": encrypt("of p1", { b: { user: "cook", port: 1883, has_user: true } }),
  "projects/p2/package.json": JSON.stringify({ "node-red": { settings: { flowFile: "flows.json" } } }),
  "projects/p2/flows.json": "[]",
};

let service: Service;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service?.[Symbol.asyncDispose]());

/** The outcome of an import, without the path of the folder, and the report as lines. */
async function importFiles(
  files: Readonly<Record<string, string>>,
  {
    path = "",
    args = ["--dry-run"],
    server = service,
  }: { path?: string; args?: readonly string[]; server?: Service } = {},
) {
  await using folder = await openFolder();
  await writeFiles(folder.path, files);
  const env = { FLOWGATE_SERVER: server.url };
  const { code, stdout, stderr } = await runCommand(["import", join(folder.path, path), ...args, "-o", "json"], {
    env,
  });
  const { report = [] } = (stdout === "" ? {} : JSON.parse(stdout)) as { report?: Record<string, string>[] };
  const rows = report.map(({ name, file, outcome, detail }) => `${file} ${name}: ${outcome}: ${detail}`);
  return { code, stderr: stderr.replaceAll(folder.path, "~"), rows, stdout };
}

describe("the active project of Node-RED", () => {
  test("is what is imported, with its credentials, and the flows of before are not", async () => {
    const { code, stderr, rows, stdout } = await importFiles(projectFiles, { args: ["--yes"] });
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(rows).toEqual([
      "projects/p2 projects: not_needed: it is not the active project: import this folder to deploy its flows",
      "projects/p1 projects: taken_over: its flows are deployed, since it is the active project; its git history remains where it is",
      `flows.json flows: not_needed: Node-RED runs the project "p1" instead: to deploy this file, specify it with --flow-file`,
      expect.stringContaining(
        'projects/p1/secrets.json: the credential "port" of the node "b" can\'t be imported, because it is not text: set it again',
      ),
      "settings.js:1 editorTheme: not_needed: it is about the editor",
    ]);
    expect(stdout).not.toContain("1883");
    expect(await service.get("/hello")).toBe("of p1");
    const shown = await runCommand(["show", "@"], { env: { FLOWGATE_SERVER: service.url } });
    expect(shown.stdout).toContain("credentials: + user\n");
  });

  test.each(["projects/p1", "projects/p2"])("can be named by its folder %s, as can another one", async (path) => {
    const { code, rows } = await importFiles(projectFiles, { path });
    expect(code).toBe(0);
    const note =
      "projects/p2 projects: changed: it is imported as specified, but is not the project that Node-RED runs";
    expect(rows.includes(note)).toBe(path === "projects/p2");
  });

  test.each<[what: string, changes: Record<string, string>, row: string]>([
    [
      "is off",
      { "settings.js": "module.exports = {};" },
      "projects/p1 projects: not_needed: projects are off (editorTheme.projects.enabled): if NODE_RED_ENABLE_PROJECTS turns them on, import this folder instead",
    ],
    [
      "is named by flowFile",
      { "settings.js": `module.exports = { flowFile: "p2", editorTheme: { projects: { enabled: true } } };` },
      "projects/p2 projects: taken_over: its flows are deployed, since it is the active project; its git history remains where it is",
    ],
    [
      "is in a section, as before Node-RED 1.2",
      { ".config.projects.json": JSON.stringify({ projects: { activeProject: "p2" } }) },
      "projects/p2 projects: taken_over: its flows are deployed, since it is the active project; its git history remains where it is",
    ],
  ])("that %s", async (_, changes, row) => {
    const { code, rows } = await importFiles({ ...projectFiles, ...changes });
    expect(code).toBe(0);
    expect(rows).toContain(row);
  });

  test.each<[what: string, changes: Record<string, string>, message: string]>([
    [
      "code that turns projects on",
      { "settings.js": "module.exports = {\n  editorTheme: { projects: { enabled: process.env.ON } } };" },
      "~/settings.js:2: whether projects are on: it is read from the environment variable ON: specify the folder of the project, ~/projects/p1, or, if they are off, the file of flows with --flow-file",
    ],
    [
      "a project without flows",
      { "projects/p1/package.json": "{}" },
      "~/projects/p1/package.json: node-red.settings.flowFile: names no file of flows: complete it, or specify the file with --flow-file",
    ],
    [
      "a project without a package.json",
      { ".config.projects.json": JSON.stringify({ activeProject: "p3" }) },
      "~/projects/p3/package.json: there is no such file, without which Node-RED runs no flows of a project: restore it, or specify the file of flows with --flow-file",
    ],
    [
      "a project outside of the folder",
      { ".config.projects.json": JSON.stringify({ activeProject: "../../x" }) },
      "~/.config.projects.json: activeProject: leads out of ~: if that is intended, specify the folder of the project",
    ],
    [
      "flows outside of the project",
      { "projects/p1/package.json": JSON.stringify({ "node-red": { settings: { flowFile: "../../flows.json" } } }) },
      "~/projects/p1/package.json: node-red.settings.flowFile: leads out of ~/projects/p1: if that is intended, specify the file with --flow-file",
    ],
    [
      "another secret of the project",
      { ".config.projects.json": JSON.stringify({ activeProject: "p1", projects: { p1: { credentialSecret: "x" } } }) },
      "~/projects/p1/secrets.json: can't be decrypted with the credentialSecret of the project in .config.projects.json: specify the secret that was the credentialSecret of Node-RED, or restore the file from a backup.",
    ],
    [
      "projects that are off, and no other flows",
      { "settings.js": "module.exports = {};", "flows.json": "", ".flows.json.backup": "[]" },
      "~/flows.json: is empty: restore it from Node-RED's backup of it, .flows.json.backup, or specify another one with --flow-file, or write [] into it if there are no flows",
    ],
  ])("is not imported with %s", async (_, changes, message) => {
    const { code, stderr } = await importFiles({ ...projectFiles, ...changes });
    expect(code).toBe(1);
    expect(stderr).toContain(`flowgate: ${message}`);
  });
});

test("advice to import the folder of a project works, also without the files around it", async () => {
  const { "flows.json": _, ".config.projects.json": __, ...others } = projectFiles;
  const files = { ...others, "settings.js": "module.exports = {};" };
  const { code, stderr } = await importFiles(files);
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr:
      "flowgate: ~: has no flows.json and no flows_<host name>.json: specify the folder of a project, such as ~/projects/p1\n",
  });
  expect(await importFiles(files, { path: "projects/p2" })).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("~/projects/p2/flows.json: 0 nodes"),
  });
});

test("nodes in files of the user folder are reported, and values of credentials never", async () => {
  const { code, rows, stdout } = await importFiles({
    "flows.json": JSON.stringify([broker, { ...broker, id: "c" }]),
    "settings.js": `module.exports = { credentialSecret: "s", adminAuth: { type: "credentials", users: [] } };`,
    "flows_cred.json": encrypt("s", {
      b: { port: 1883, has_password: true, user: "cook", hasOwnProperty: "canary" },
      c: 3,
      gone: 4,
    }),
    "nodes/lower.js": "",
    "nodes/lower.html": "",
    "nodes/more/upper.js": "",
  });
  expect(code).toBe(0);
  const credentials = "flows.json credentials: not_possible: ~/flows_cred.json: the";
  expect(rows.map((row) => row.replace(/\/\S+\/flows_cred/, "~/flows_cred"))).toEqual(
    expect.arrayContaining([
      `${credentials} credential "port" of the node "b" can't be imported, because it is not text: set it again`,
      `${credentials} credential "hasOwnProperty" of the node "b" can't be imported, because no credential can have this name: set it again`,
      `${credentials} credentials of the node "c" can't be imported, because they are no object: set them again`,
      "nodes/ nodes: not_possible: nodes are loaded from modules only: make one of lower.js, more/upper.js, with a package.json that names them in node-red.nodes, and npm pack, and install it with flowgate module install FILE.tgz",
    ]),
  );
  expect(rows.filter((row) => row.startsWith("flows.json credentials"))).toHaveLength(3);
  expect(stdout).not.toMatch(/canary|1883/);
});

test("the printed command installs the modules, with the printed configuration", async () => {
  await using packages = await openFolder();
  for (const each of [
    {
      name: "node-red-contrib-own",
      version: "1.2.0",
      manifest: { "node-red": { nodes: { all: "nodes.js" } } },
      files: { "nodes.js": nodesOf(["own"]), "nodes.html": templatesOf(["own"]) },
    },
    { name: "moment", version: "2.0.0", files: { "index.js": "module.exports = () => 'a moment';" } },
  ]) {
    await writeFile(join(packages.path, `${each.name}.tgz`), await pack(each));
  }
  const flows = endpoint("/moment", "msg.payload = moment()").map((node) =>
    node.type === "function" ? { ...node, libs: [{ var: "moment", module: "moment" }] } : node,
  );
  const config = join(packages.path, "flowgate.yaml");
  const files = {
    "settings.js": `module.exports = { externalModules: { palette: { allowList: ["node-red-contrib-*"], denyList: ["*"] } } };`,
    "package.json": JSON.stringify({
      dependencies: { "node-red": "5.0.0", "node-red-contrib-own": "~1.2.0", moment: "^2.0.0" },
    }),
    "flows.json": JSON.stringify([...flows, { id: "own", type: "own", z: "tab of /moment", x: 1, y: 1, wires: [] }]),
  };
  await using folder = await openFolder();
  await writeFiles(folder.path, files);
  const dryRun = await runCommand(["import", folder.path, "--dry-run", "--write-config", config], {
    env: { FLOWGATE_SERVER: service.url },
  });
  const command = /^flowgate (module install .*)$/m.exec(dryRun.stdout)?.[1] ?? "";
  expect(command).toBe("module install 'moment@^2.0.0' 'node-red-contrib-own@~1.2.0'");

  const { modules } = parse(await readFile(config, "utf8")) as { modules: object };
  await using other = await startService({ config: { modules: { ...modules, registry: packages.path } } });
  const env = { FLOWGATE_SERVER: other.url };
  // As a shell does.
  const words = command.split(" ").map((word) => word.replaceAll("'", ""));
  expect(await runCommand(words, { env })).toMatchObject({
    code: 0,
    stdout: "Installed moment 2.0.0.\nInstalled node-red-contrib-own 1.2.0.\n",
  });
  const { code, stdout } = await runCommand(["import", folder.path, "--yes"], { env });
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining("Its flows are running.\n") });
  expect(stdout).not.toContain("module install");
  expect(await other.get("/moment")).toBe("a moment");
});

test("the library is imported with its properties, and replaced only without --skip-library", async () => {
  await using tools = await startToolService({ config: withoutRuntime });
  const files = {
    "flows.json": "[]",
    // As Node-RED writes them.
    "lib/functions/tools/greet.js":
      "// name: greet\n// outputs: 1\n// initialize: // start\\nlet a = '\\\\n';\nmsg.payload = 1;\n// name: no property\nreturn msg;",
    "lib/functions/.hidden.js": "",
    "lib/flows/mine.json": `[{"id": "t", "type": "tab"}]`,
    "lib/flows/broken.json": "[",
    "lib/templates/large.html": "x".repeat(1024 * 1024),
  };
  const { code, rows, stderr } = await importFiles(files, { args: ["--yes"], server: tools });
  expect(rows).toEqual([
    "lib/flows/broken.json library: not_possible: it is not JSON",
    "lib/templates/large.html library: not_possible: it is larger than 1 MiB",
    "lib/flows/ library: taken_over: 1 entry of the library of Node-RED's editor",
    "lib/functions/ library: taken_over: 1 entry of the library of Node-RED's editor",
  ]);
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: expect.stringContaining("Imported 2 entries of the library.\n"),
  });
  const read = async (path: string) => (await tools.sendTool("GET", `/library/local/${path}`)).body;
  expect(JSON.parse(await read("functions/tools"))).toEqual([
    { fn: "greet.js", name: "greet", outputs: "1", initialize: "// start\nlet a = '\\n';" },
  ]);
  expect(await read("functions/tools/greet.js")).toBe("msg.payload = 1;\n// name: no property\nreturn msg;");
  expect(await read("functions")).toBe('["tools"]');
  expect(JSON.parse(await read("flows/mine"))).toEqual([{ id: "t", type: "tab" }]);

  const changed = { ...files, "lib/flows/mine.json": "[]" };
  const skipped = await importFiles(changed, { args: ["--yes", "--skip-library"], server: tools });
  expect(skipped.rows).toEqual([]);
  expect(JSON.parse(await read("flows/mine"))).toHaveLength(1);
  await importFiles(changed, { args: ["--yes"], server: tools });
  expect(JSON.parse(await read("flows/mine"))).toEqual([]);
});

test("the library is imported although the flows do not run without errors", async () => {
  await using tools = await startToolService();
  const failing = { ...endpoint("/hello", "return msg")[2], initialize: "throw new Error('start')" };
  const files = {
    "settings.js": "module.exports = {};",
    "flows.json": JSON.stringify([...endpoint("/hello", "return msg").filter(({ id }) => id !== failing.id), failing]),
    "lib/functions/a.js": "return msg;",
  };
  const outcome = await importFiles(files, { args: ["--yes"], server: tools });
  expect(outcome).toMatchObject({
    code: 5,
    stderr: expect.stringMatching(/Imported 1 entry of the library\.\n[^]*its flows run with errors/) as string,
  });
  expect((await tools.sendTool("GET", "/library/local/functions/a.js")).body).toBe("return msg;");
});

test("a link in the library is not followed, and what the service refuses is named", async () => {
  await using folder = await openFolder();
  await writeFiles(folder.path, {
    "flows.json": "[]",
    "secret.txt": "canary",
    "lib/functions/a.js": `// note: ${"x".repeat(64 * 1024)}\nreturn msg;`,
  });
  await symlink("../../secret.txt", join(folder.path, "lib/functions/link.js"));
  const env = { FLOWGATE_SERVER: service.url };
  const { code, stdout, stderr } = await runCommand(["import", folder.path, "--yes", "--force"], { env });
  expect(stdout).toMatch(/lib\/functions\/link\.js +not possible +it is a link: put the file in its place/);
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr:
      "flowgate: The flows were deployed, but not all else was imported:\n" +
      "flowgate: lib/functions/a.js: the properties of an entry, apart from its text, may have at most 65536 bytes\n",
  });
});
