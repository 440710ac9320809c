import { execFile } from "node:child_process";
import { mkdir, mkdtempDisposable, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { formatInstall } from "../../../src/cli/node-red/required-modules.ts";
import { type NodeRedImport, readUserFolder } from "../../../src/cli/node-red/user-folder.ts";
import { type OptionsInput, parseOptions } from "../../../src/options/parse.ts";

const openFolder = () => mkdtempDisposable(join(tmpdir(), "flowgate-"));

const flows = [
  { id: "t1", type: "tab", label: "Küche", disabled: false, info: "" },
  {
    id: "b1",
    type: "mqtt-broker",
    name: "Broker",
    broker: "127.0.0.1",
    port: "1",
    autoConnect: false,
    credentials: { user: "cook", password: "hunter2 ✓" },
  },
  {
    id: "g1",
    type: "global-config",
    env: [{ name: "KEY", value: "", type: "cred" }],
    credentials: { map: { KEY: "a key ✓", has_KEY: true } },
  },
  { id: "n1", type: "mqtt out", z: "t1", topic: "a", broker: "b1", x: 100, y: 40, wires: [] },
  { id: "n2", type: "function", z: "t1", func: "return msg;\n", outputs: 1, libs: [], x: 100, y: 80, wires: [[]] },
];

/** Makes a user folder with the real Node-RED. */
async function makeUserFolder(folder: string, settings: string): Promise<void> {
  await writeFile(join(folder, "settings.js"), settings);
  const script = fileURLToPath(new URL("node-red.ts", import.meta.url));
  const running = promisify(execFile)(process.execPath, [script, folder]);
  running.child.stdin?.end(JSON.stringify(flows));
  await running;
}

const hash = "$2b$08$wuAqPiKJlVN27eF5qJp.RuQYuy6ZYONW7a/UWYxDTtwKFCdB8F19y";

const settingsWithSecret = `
module.exports = {
  flowFile: "flows.json",
  credentialSecret: "the secret of a kitchen",
  adminAuth: {
    type: "credentials",
    users: [
      { username: "admin", password: "${hash}", permissions: "*" },
      { username: "guest", password: "${hash}", permissions: ["read", "flows.write"] },
    ],
    default: { permissions: "read" },
  },
  functionGlobalContext: {},
};
`;

function credentialsOf({ credentials }: NodeRedImport): Record<string, Record<string, string>> {
  return Object.fromEntries(Object.entries(credentials?.nodes ?? {}).map(([id, { values }]) => [id, { ...values }]));
}

async function failureOf(folder: string, promise: Promise<unknown>): Promise<string> {
  const error: unknown = await promise.then(
    () => new Error("no failure"),
    (error: unknown) => error,
  );
  return (error as Error).message.replaceAll(`${folder}/`, "").replaceAll(folder, ".");
}

const secrets = { b1: { user: "cook", password: "hunter2 ✓" }, g1: { KEY: "a key ✓" } };

describe("a user folder that Node-RED has made", () => {
  let files: Record<string, string>;
  beforeAll(async () => {
    await using folder = await openFolder();
    await makeUserFolder(folder.path, settingsWithSecret);
    files = {};
    for (const name of ["settings.js", "flows.json", "flows_cred.json", ".config.nodes.json"]) {
      files[name] = await readFile(join(folder.path, name), "utf8");
    }
  }, 120_000);

  async function openCopy(changes: Record<string, string | undefined> = {}) {
    const folder = await openFolder();
    for (const [name, text] of Object.entries({ ...files, ...changes })) {
      if (text !== undefined) {
        await writeFile(join(folder.path, name), text);
      }
    }
    return folder;
  }

  test("is read with its credentials and users", async () => {
    await using folder = await openCopy();
    const imported = await readUserFolder({ folder: folder.path });
    expect(imported.flows.map(({ id, type }) => ({ id, type }))).toEqual(flows.map(({ id, type }) => ({ id, type })));
    expect(JSON.stringify(imported.flows)).not.toContain("hunter2");
    expect(credentialsOf(imported)).toEqual(secrets);
    expect(imported.modules).toEqual([]);
    expect(imported.notes).toEqual([]);
    const users = parse(imported.users ?? "") as OptionsInput;
    expect(parseOptions(users).adminAuth).toMatchObject({
      users: [
        { username: "admin", password: hash, permissions: ["*"] },
        { username: "guest", password: hash, permissions: ["read", "flows.write"] },
      ],
      default: { permissions: ["read"] },
    });
  });

  test("is read with a secret that is not in the settings", async () => {
    await using folder = await openCopy({
      "settings.js": "module.exports = { credentialSecret: process.env.SECRET };",
    });
    const imported = await readUserFolder({ folder: folder.path, credentialSecret: "the secret of a kitchen" });
    expect(credentialsOf(imported)).toEqual(secrets);
    expect(imported.notes).toEqual([
      `${folder.path}/settings.js:1: credentialSecret can't be imported, because it is read from the environment variable SECRET`,
    ]);
  });

  test("is read without running its settings", async () => {
    const settings = `throw new Error("was run");\n${settingsWithSecret}`;
    await using folder = await openCopy({ "settings.js": settings });
    expect(credentialsOf(await readUserFolder({ folder: folder.path }))).toEqual(secrets);
  });

  test.each<[what: string, changes: Record<string, string | undefined>, secret: string | undefined, message: string]>([
    [
      "a wrong secret",
      {},
      "wrong",
      "flows_cred.json: can't be decrypted with the specified secret: specify the secret that was the credentialSecret of Node-RED, or restore the file from a backup",
    ],
    [
      "no secret",
      { "settings.js": undefined },
      undefined,
      "flows_cred.json: is encrypted, and neither settings.js nor .config.runtime.json has the secret: specify it with --credential-secret-file",
    ],
    [
      "broken credentials",
      { "flows_cred.json": '{"$": "0123456789"}' },
      undefined,
      "flows_cred.json: can't be decrypted with the credentialSecret of settings.js: specify the secret that was the credentialSecret of Node-RED, or restore the file from a backup",
    ],
    [
      "credentials of another form",
      { "flows_cred.json": "[]" },
      undefined,
      "flows_cred.json: must contain an object of objects, by node id and name: restore the file from a backup",
    ],
    [
      "cut credentials",
      { "flows_cred.json": '{"$": ' },
      undefined,
      "flows_cred.json:1:7: is not valid JSON: unexpected end",
    ],
    [
      "empty credentials",
      { "flows_cred.json": "" },
      undefined,
      "flows_cred.json: is empty: restore it from Node-RED's backup of it, .flows_cred.json.backup, or remove it if no node has credentials",
    ],
    ["cut flows", { "flows.json": '[{"id":' }, undefined, "flows.json:1:8: is not valid JSON: unexpected end"],
    [
      "no flows",
      { "flows.json": undefined },
      undefined,
      "flows.json: there is no such file or folder: correct the path",
    ],
    [
      "broken settings",
      { "settings.js": "module.exports = {\n  a: }" },
      undefined,
      "settings.js:2:6: is not valid JavaScript: correct it, or import without it",
    ],
    [
      "settings in an ES module",
      { "settings.js": "export default {};" },
      undefined,
      "settings.js:1:1: is an ES module, from which Node-RED takes no settings: export them with module.exports = {…}",
    ],
  ])("is rejected with %s", async (_, changes, credentialSecret, message) => {
    await using folder = await openCopy(changes);
    expect(await failureOf(folder.path, readUserFolder({ folder: folder.path, credentialSecret }))).toBe(message);
  });

  test("needs the modules of its package.json that its flows use", async () => {
    const manifest = {
      dependencies: { "node-red-contrib-used": "~1.2.3", "node-red-contrib-unused": "1.0.0", lib: "$(x) 'y'" },
    };
    const registry = {
      "node-red-contrib-used": { nodes: { a: { types: ["function", "other"] } } },
      "node-red-contrib-unused": { nodes: { b: { types: ["other"] } } },
    };
    const changes = { "package.json": JSON.stringify(manifest), ".config.nodes.json": JSON.stringify(registry) };
    await using folder = await openCopy(changes);
    const { modules } = await readUserFolder({ folder: folder.path });
    expect(modules).toEqual([
      { name: "lib", version: "$(x) 'y'" },
      { name: "node-red-contrib-used", version: "~1.2.3", types: ["function"] },
    ]);
    expect(formatInstall(modules)).toBe("flowgate module install lib 'node-red-contrib-used@~1.2.3'");
  });
});

test("reads a folder with a generated secret and a file that is named after the host", async () => {
  await using folder = await openFolder();
  await makeUserFolder(folder.path, "module.exports = {};");
  const imported = await readUserFolder({ folder: folder.path });
  expect(imported.flowsFile).toMatch(/\/flows_.*\.json$/);
  expect(credentialsOf(imported)).toEqual(secrets);
  expect(imported.users).toBeUndefined();

  await writeFile(join(folder.path, "flows_other.json"), "[]");
  expect(await failureOf(folder.path, readUserFolder({ folder: folder.path }))).toMatch(
    /^\.: has several files of flows \(flows_.*\.json, flows_.*\.json\): specify one with --flow-file$/,
  );
  expect((await readUserFolder({ folder: folder.path, flowFile: "flows_other.json" })).flows).toEqual([]);
}, 120_000);

test("reads credentials in clear text", async () => {
  await using folder = await openFolder();
  await makeUserFolder(folder.path, 'module.exports = { flowFile: "my.json", credentialSecret: false };');
  expect(await readFile(join(folder.path, "my_cred.json"), "utf8")).toContain("hunter2");
  expect(credentialsOf(await readUserFolder({ folder: folder.path }))).toEqual(secrets);
}, 120_000);

describe("settings", () => {
  async function notesFor(settings: string) {
    await using folder = await openFolder();
    await writeFile(join(folder.path, "settings.js"), settings);
    await writeFile(join(folder.path, "flows.json"), "[]");
    const { notes, users } = await readUserFolder({ folder: folder.path });
    return { notes: notes.map((note) => note.replaceAll(`${folder.path}/settings.js:`, "")), users };
  }

  test("that are not data are reported, and the others are read", async () => {
    const { notes, users } = await notesFor(`const secret = require("./secret");
module.exports = {
  credentialSecret: secret,
  adminAuth: {
    users: [
      { username: "a", password: process.env.HASH, permissions: "*" },
      { username: "b", password: "plain", permissions: "*" },
      { username: "c", password: \`${hash}\`, permissions: ["flows.read", "nodes.write"] },
      { username: "d", password: "${hash}", permissions: "library.read" },
      ...secret.users,
    ],
    tokens: function (token) {},
    sessionExpiryTime: 3600,
  },
  contextStorage: { default: "memory" },
  functionGlobalContext: { os: require("os") },
};
`);
    expect(notes).toEqual([
      "6: adminAuth.users[0].password can't be imported, because it is read from the environment variable HASH",
      "7: adminAuth.users[1].password can't be imported, because it is not a bcrypt hash: create one with flowgate hash-password",
      "8: adminAuth.users[2].permissions can't be imported, because Flowgate has no such permission",
      "9: adminAuth.users[3].permissions can't be imported, because Flowgate has no such permission",
      "9: adminAuth.users[3].permissions can't be imported, because no permission is left: choose from *, read, and those of docs/configuration.md",
      "10: adminAuth.users[4].username can't be imported, because it is computed when the file runs",
      "12: adminAuth.tokens can't be imported, because it is a function",
      "16: functionGlobalContext can't be imported, because Flowgate's flows get no values from the configuration: use environment variables, or load modules in function nodes",
      "15: contextStorage can't be imported, because context is kept in memory: use a node that stores values",
      "3: credentialSecret can't be imported, because it is computed when the file runs",
    ]);
    expect(users).toBe(
      `adminAuth:\n  users:\n    - username: c\n      password: ${hash}\n      permissions: flows.read\n  tokenLifetimeSeconds: 3600\n`,
    );
  });

  test.each([
    ["module.exports = create();", "1: settings can't be imported, because it is computed when the file runs"],
    [
      "exports.flowFile = 'x';",
      "1: settings can't be imported, because the file has no statement module.exports = {…}",
    ],
    [
      "module.exports = { adminAuth: { type: 'strategy', strategy: {} } };",
      "1: adminAuth can't be imported, because only users with passwords can be imported",
    ],
    [
      "module.exports = {\n adminAuth: require('./users') };",
      "2: adminAuth can't be imported, because it is computed when the file runs",
    ],
  ])("%j", async (settings, note) => {
    expect(await notesFor(settings)).toEqual({ notes: [note], users: undefined });
  });
});

test("settings can't lead out of the folder, and --flow-file can", async () => {
  await using folder = await openFolder();
  const inner = join(folder.path, "inner");
  await mkdir(inner);
  await writeFile(join(folder.path, "others.json"), "[]");
  await writeFile(join(inner, "settings.js"), 'module.exports = {\n  flowFile: "../others.json" };');
  const message = `${join(inner, "settings.js")}:2: flowFile: leads out of ${inner}: if that is intended, specify the file with --flow-file`;
  await expect(readUserFolder({ folder: inner })).rejects.toThrow(message);
  expect((await readUserFolder({ folder: inner, flowFile: "../others.json" })).flows).toEqual([]);
  await symlink("../others.json", join(inner, "link.json"));
  await writeFile(join(inner, "settings.js"), 'module.exports = {\n  flowFile: "link.json" };');
  await expect(readUserFolder({ folder: inner })).rejects.toThrow(message);
});
