import { execFile } from "node:child_process";
import { mkdir, mkdtempDisposable, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { formatInstall } from "../../../packages/cli/src/node-red/required-modules.ts";
import { type NodeRedImport, readUserFolder } from "../../../packages/cli/src/node-red/user-folder.ts";
import { createServiceCommands } from "../../../src/cli/service-commands.ts";
import { type OptionsInput, parseOptions } from "../../../src/options/parse.ts";
import { unusedProgram } from "../unused-program.ts";

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
    expect(imported.report.map(({ name, file, outcome }) => `${file} ${name}: ${outcome}`)).toEqual([
      "settings.js:5 adminAuth: taken_over",
      "settings.js:3 flowFile: taken_over",
      "settings.js:4 credentialSecret: changed",
      "settings.js:13 functionGlobalContext: not_needed",
    ]);
    const configuration = parse(imported.configuration ?? "") as OptionsInput;
    expect(parseOptions(configuration).adminAuth).toMatchObject({
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
    expect(imported.report).toEqual([
      {
        name: "credentialSecret",
        file: "settings.js:1",
        outcome: "changed",
        detail:
          "it is read from the environment variable SECRET: to decrypt credentials, give import its value in the file of --credential-secret-file, or in NODE_RED_CREDENTIAL_SECRET",
      },
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
      { "flows_cred.json": "", ".flows_cred.json.backup": "{}" },
      undefined,
      "flows_cred.json: is empty: restore it from Node-RED's backup of it, .flows_cred.json.backup, or remove it if no node has credentials",
    ],
    [
      "empty credentials, of which there is no backup",
      { "flows_cred.json": "", ".flows_cred.json.backup": "" },
      undefined,
      "flows_cred.json: is empty: remove it if no node has credentials",
    ],
    [
      "empty flows",
      { "flows.json": "", ".flows.json.backup": "[]" },
      undefined,
      "flows.json: is empty: restore it from Node-RED's backup of it, .flows.json.backup, or specify another one with --flow-file, or write [] into it if there are no flows",
    ],
    [
      "a secret in a variable",
      { "settings.js": 'module.exports = {\n  flowFile: "flows.json",\n  credentialSecret: process.env.SECRET };' },
      undefined,
      "flows_cred.json: is encrypted, and settings.js:3 has no credentialSecret that can be read: it is read from the environment variable SECRET: specify it with --credential-secret-file",
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
      dependencies: {
        "node-red-contrib-used": "~1.2.3",
        "node-red-contrib-unused": "1.0.0",
        lib: "^1.0.0",
        own: "file:../own",
        "node-red": "5.0.0",
      },
    };
    const registry = {
      "node-red-contrib-used": { nodes: { a: { types: ["function", "other"] } } },
      "node-red-contrib-unused": { nodes: { b: { types: ["other"] } } },
    };
    const changes = { "package.json": JSON.stringify(manifest), ".config.nodes.json": JSON.stringify(registry) };
    await using folder = await openCopy(changes);
    const { modules, report } = await readUserFolder({ folder: folder.path });
    expect(modules).toEqual([
      { name: "lib", version: "^1.0.0", forFunctions: false },
      { name: "node-red-contrib-used", version: "~1.2.3", types: ["function"], forFunctions: false },
    ]);
    expect(formatInstall(modules)).toBe("flowgate module install 'lib@^1.0.0' 'node-red-contrib-used@~1.2.3'");
    expect(report).toContainEqual({
      name: "modules",
      file: "package.json",
      outcome: "not_possible",
      detail: '"own" does not come from a registry: run npm pack where it is, and flowgate module install FILE.tgz',
    });
  });
});

test("reads a folder with a generated secret and a file that is named after the host", async () => {
  await using folder = await openFolder();
  await makeUserFolder(folder.path, "module.exports = {};");
  const imported = await readUserFolder({ folder: folder.path });
  expect(imported.flowsFile).toMatch(/\/flows_.*\.json$/);
  expect(credentialsOf(imported)).toEqual(secrets);
  expect(imported.configuration).toBeUndefined();

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

/** What becomes of settings: the rows of the report, and the configuration. */
async function translate(settings: string, prepare?: (folder: string) => Promise<void>) {
  await using folder = await openFolder();
  await writeFile(join(folder.path, "settings.js"), settings);
  await writeFile(join(folder.path, "flows.json"), JSON.stringify(flows));
  await prepare?.(folder.path);
  const { checkConfiguration } = createServiceCommands(unusedProgram);
  const { report, configuration, context } = await readUserFolder({ folder: folder.path, checkConfiguration });
  return {
    rows: report.map(({ name, file, outcome, detail }) => `${file} ${name}: ${outcome}: ${detail}`),
    configuration: parse((configuration ?? "{}").replaceAll(folder.path, "FOLDER")) as OptionsInput,
    context,
  };
}

describe("settings", () => {
  test("that are not data are reported, and the others are read", async () => {
    const { rows, configuration } = await translate(`const secret = require("./secret");
module.exports = {
  credentialSecret: secret,
  adminAuth: {
    users: [
      { username: "a", password: process.env.HASH, permissions: "*" },
      { username: "b", password: "plain", permissions: "*" },
      { username: "c", password: \`${hash}\`, permissions: ["flows.read", "nodes.read"] },
      { username: "d", password: "${hash}", permissions: "projects.read" },
      ...secret.users,
    ],
    tokens: function (token) {},
    sessionExpiryTime: 3600,
  },
  contextStorage: { default: "file", file: { module: "localfilesystem", config: { cache: secret } } },
  functionGlobalContext: { os: require("os"), price: { apple: -1.5, tax() {} } },
};
`);
    expect(rows).toEqual([
      "settings.js:4 adminAuth: taken_over: adminAuth",
      "settings.js:6 adminAuth.users[0].password: not_possible: it is read from the environment variable HASH",
      "settings.js:7 adminAuth.users[1].password: not_possible: it is not a bcrypt hash: create one with flowgate hash-password",
      "settings.js:8 adminAuth.users[2].permissions: changed: nodes.read is modules.read here",
      'settings.js:9 adminAuth.users[3].permissions: not_possible: Flowgate has no permission "projects.read"',
      "settings.js:9 adminAuth.users[3].permissions: not_possible: no permission is left: choose from *, read, and those of docs/configuration.md",
      "settings.js:10 adminAuth.users[4].username: not_possible: it is computed when the file runs",
      "settings.js:12 adminAuth.tokens: not_possible: it is a function",
      "settings.js:3 credentialSecret: changed: it is computed when the file runs: to decrypt credentials, give import its value in the file of --credential-secret-file, or in NODE_RED_CREDENTIAL_SECRET",
      "settings.js:15 contextStorage.default: taken_over: runtime.contextStorage.default",
      "settings.js:15 contextStorage.file: taken_over: runtime.contextStorage.file",
      "settings.js:15 contextStorage.file.config.cache: not_possible: it is computed when the file runs",
      "settings.js:16 functionGlobalContext: taken_over: runtime.globalContext",
      "settings.js:16 functionGlobalContext.os: not_possible: it is computed when the file runs: load modules in the Setup tab of function nodes",
      "settings.js:16 functionGlobalContext.price.tax: not_possible: it is a function: load modules in the Setup tab of function nodes",
    ]);
    expect(configuration).toEqual({
      adminAuth: {
        users: [{ username: "c", password: hash, permissions: ["flows.read", "modules.read"] }],
        tokenLifetimeSeconds: 3600,
      },
      runtime: {
        contextStorage: { default: "file", file: { module: "localfilesystem", config: {} } },
        globalContext: { price: { apple: -1.5 } },
      },
    });
  });

  test("of the port of HTTP-in nodes are translated", async () => {
    const { rows, configuration } = await translate(`module.exports = {
  uiPort: process.env.PORT || 1881,
  uiHost: "127.0.0.1",
  https: { key: require("fs").readFileSync("keys/a.pem"), cert: fs.readFileSync("/etc/cert.pem") },
  httpNodeRoot: "red/",
  httpNodeAuth: { user: "ada", pass: "${hash}" },
  httpStaticAuth: { user: "bob", pass: "cf2d6eb4fbb4fa5a7e7a0f2d3d6d9b6f" },
  httpNodeCors: { origin: "*", methods: "GET, PUT" },
  httpStatic: [
    { path: "/srv/img/", root: "/img/", options: { maxAge: "1d", redirect: false }, cors: { origin: ["https://a.example"] } },
    { path: __dirname, root: "x" },
    "/srv/www",
  ],
  httpStaticRoot: "/static/",
  httpNodeMiddleware: (req, res, next) => next(),
  requireHttps: true,
};`);
    expect(rows).toEqual([
      "settings.js:2 uiPort: changed: runtime.port, without the environment variable",
      "settings.js:3 uiHost: taken_over: runtime.host",
      "settings.js:4 https: changed: runtime.http.tls: check the paths, which were relative to where Node-RED was started",
      "settings.js:5 httpNodeRoot: taken_over: runtime.http.root",
      "settings.js:6 httpNodeAuth: taken_over: runtime.http.auth, which WebSockets need too",
      "settings.js:7 httpStaticAuth: not_possible: it is not a bcrypt hash: create one with flowgate hash-password",
      "settings.js:8 httpNodeCors: taken_over: runtime.http.cors",
      "settings.js:10 httpStatic[0].options.redirect: not_possible: there is no such option",
      "settings.js:11 httpStatic[1]: not_possible: it has no path",
      "settings.js:9 httpStatic: taken_over: runtime.http.static",
      "settings.js:14 httpStaticRoot: taken_over: it is part of runtime.http.static",
      "settings.js:15 httpNodeMiddleware: not_possible: it is code, and the configuration is data: use a proxy",
      "settings.js:16 requireHttps: changed: with runtime.http.tls, the port accepts TLS only, and redirects nothing",
    ]);
    expect(configuration).toEqual({
      runtime: {
        port: 1881,
        host: "127.0.0.1",
        http: {
          tls: { certFile: "/etc/cert.pem", keyFile: "FOLDER/keys/a.pem" },
          root: "/red",
          auth: { username: "ada", password: hash },
          cors: { origins: ["*"], methods: ["GET", "PUT"] },
          static: [
            { path: "/srv/img/", root: "/static/img", maxAgeSeconds: 86_400, cors: { origins: ["https://a.example"] } },
            { path: "/srv/www", root: "/static" },
          ],
        },
      },
    });
  });

  test("that nodes read keep their names, and what the service would not accept is reported", async () => {
    const { rows, configuration } = await translate(`module.exports = {
  mqttReconnectTime: 15000,
  ui: { path: "dashboard", middleware: function () {} },
  "some-node": 1,
  debugMaxLength: "long",
  globalFunctionTimeout: 0,
  contextStorage: { default: "file", fast: { module: "redis" }, file: { module: "localfilesystem" } },
  externalModules: { palette: { allowList: ["node-red-*"], denyList: [] } },
  logging: { console: { level: "off", metrics: true, audit: false }, mine: { level: "info", handler() {} } },
  editorTheme: { projects: { enabled: true } },
  functionTimeout: 0,
};`);
    expect(rows).toEqual([
      "settings.js:2 mqttReconnectTime: taken_over: runtime.nodeSettings.mqttReconnectTime",
      "settings.js:3 ui: taken_over: runtime.nodeSettings.ui",
      "settings.js:3 ui.middleware: not_possible: it is a function",
      "settings.js:4 some-node: not_possible: runtime.nodeSettings.some-node: must be a name of letters, digits and _",
      "settings.js:5 debugMaxLength: not_possible: runtime.nodeSettings.debugMaxLength: must be a whole number from 0 to 9007199254740991",
      "settings.js:6 globalFunctionTimeout: taken_over: runtime.nodeSettings.globalFunctionTimeout",
      "settings.js:7 contextStorage.default: taken_over: runtime.contextStorage.default",
      "settings.js:7 contextStorage.fast: not_possible: runtime.contextStorage.fast.module: must be a store with one of these modules: memory, localfilesystem, database",
      "settings.js:7 contextStorage.file: taken_over: runtime.contextStorage.file",
      "settings.js:9 logging.console: taken_over: log.level",
      "settings.js:9 logging.console.metrics: not_needed: GET /metrics has them",
      "settings.js:9 logging.console.audit: not_needed: the audit log is always written: flowgate audit list shows it",
      "settings.js:9 logging.mine: not_possible: the log is JSON on stdout: collect it there",
      "settings.js:10 editorTheme: not_needed: it is about the editor",
      "settings.js:11 functionTimeout: not_needed: the editor sets it on new nodes only: see globalFunctionTimeout",
      "settings.js:8 externalModules: taken_over: modules.allow and modules.deny",
    ]);
    expect(configuration).toEqual({
      runtime: {
        contextStorage: { default: "file", file: { module: "localfilesystem" } },
        nodeSettings: { mqttReconnectTime: 15_000, ui: { path: "dashboard" }, globalFunctionTimeout: 0 },
      },
      modules: { allow: ["node-red-*"] },
      log: { level: "silent" },
    });
  });

  test.each([
    ["module.exports = create();", "settings.js:1 settings: not_possible: it is computed when the file runs"],
    ["exports.flowFile = 'x';", "settings.js:1 settings: not_possible: the file has no statement module.exports = {…}"],
    [
      "module.exports = { adminAuth: { type: 'strategy', strategy: {} } };",
      "settings.js:1 adminAuth: not_possible: only users with passwords can be imported",
    ],
    [
      "module.exports = {\n adminAuth: require('./users') };",
      "settings.js:2 adminAuth: not_possible: it is computed when the file runs",
    ],
  ])("%j", async (settings, row) => {
    expect(await translate(settings)).toMatchObject({ rows: [row], configuration: {} });
  });
});

/** A function node that loads modules. */
const withLibs = (...modules: string[]) => [
  { id: "f", type: "function", func: "", wires: [], libs: modules.map((module) => ({ var: "x", module })) },
];

describe("the lists of modules", () => {
  test.each<
    [what: string, externalModules: string, needed: string[], modules: string[], lists: object, rows: string[]]
  >([
    [
      "of nodes permit those of functions that the flows load, by name",
      `{ palette: { allowList: ["node-red-contrib-*"] } }`,
      ["moment", "node-red-contrib-a"],
      ["moment", "node-red-contrib-a"],
      { allow: ["node-red-contrib-*", "moment"] },
      ["changed: modules.allow and modules.deny, for nodes and functions, with moment for the flows"],
    ],
    [
      "of functions do not keep nodes from being installed",
      `{ palette: { denyList: ["bad"] }, modules: { allowList: ["moment"], denyList: ["*"] } }`,
      ["moment"],
      ["moment"],
      { allow: ["*", "moment"], deny: ["bad"] },
      ["changed: modules.allow and modules.deny, for nodes and functions"],
    ],
    [
      "of functions that deny a module leave it out of the command",
      `{ palette: { allowList: ["a*"] }, modules: { denyList: ["fs-extra"] } }`,
      ["fs-extra", "moment"],
      ["moment"],
      { allow: ["a*", "*"], deny: ["fs-extra"] },
      [
        "changed: modules.allow and modules.deny, for nodes and functions",
        "not_possible: its lists deny the module fs-extra, which the flows need",
      ],
    ],
    [
      "that contradict each other are reported",
      `{ palette: { denyList: ["moment"] }, modules: { allowList: ["moment"] } }`,
      ["moment"],
      [],
      { allow: ["*", "moment"], deny: ["moment"] },
      [
        "changed: modules.allow and modules.deny, for nodes and functions",
        "not_possible: they deny the module moment, which the flows need: choose modules.allow and modules.deny",
      ],
    ],
    [
      "that are code",
      `{ palette: { allowList: list } }`,
      ["moment"],
      ["moment"],
      {},
      [
        "not_possible: it is computed when the file runs",
        "not_needed: modules are installed with flowgate module install",
      ],
    ],
  ])("%s", async (_, externalModules, needed, installed, lists, details) => {
    await using folder = await openFolder();
    await writeFile(join(folder.path, "settings.js"), `module.exports = { externalModules: ${externalModules} };`);
    await writeFile(join(folder.path, "flows.json"), JSON.stringify(withLibs(...needed)));
    const { modules, configuration, report } = await readUserFolder({ folder: folder.path });
    expect(modules.map(({ name }) => name)).toEqual(installed);
    expect((parse(configuration ?? "{}") as OptionsInput).modules ?? {}).toEqual(lists);
    expect(report.map(({ outcome, detail }) => `${outcome}: ${detail}`)).toEqual(details);
  });
});

test("values of context are read for the stores of the settings, and those that can't be set are reported", async () => {
  const files = {
    "values/global/global.json": `{"visits": 3, "a key": null, "'\\"": 1}`,
    "values/t1/flow.json": `{"ours": {"a": [1]}}`,
    "values/t1/n1.json": `{"mine": "x"}`,
    "values/t1/gone.json": `{"x": 1}`,
    "values/gone/flow.json": `{"x": 1}`,
    "values/b1/n2.json": `{"inner": 1}`,
    "context/global/global.json": `{"other": 1}`,
  };
  const settings = `module.exports = { contextStorage: { file: { module: "localfilesystem", config: { base: "values" } } } };`;
  const { rows, context } = await translate(settings, async (folder) => {
    for (const [name, text] of Object.entries(files)) {
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await writeFile(join(folder, name), text);
    }
  });
  expect(context).toEqual([
    { store: "file", scope: "global/visits", value: 3 },
    { store: "file", scope: `global/"a key"`, value: null },
    { store: "file", scope: "flow/t1/ours", value: { a: [1] } },
    { store: "file", scope: "node/n1/mine", value: "x" },
  ]);
  expect(rows.slice(1)).toEqual([
    "values/b1/n2.json context: not_possible: it is of a node in a subflow: stop the flows, and copy the file to runtime.dir/values/b1/n2.json",
    "values/global/global.json context: taken_over: 2 values in the store file",
    `values/global/global.json context: not_possible: no expression can name "'\\""`,
    "values/t1/flow.json context: taken_over: 1 value in the store file",
    "values/t1/n1.json context: taken_over: 1 value in the store file",
  ]);
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
