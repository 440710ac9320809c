import { execFile } from "node:child_process";
import { mkdir, mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { endpoint } from "../e2e/flow-builders.ts";
import { type Service, startService } from "../e2e/service.ts";
import { runCommand } from "./run-command.ts";
import { atTerminal, needsTerminal } from "./terminal.ts";

const hash = "$2b$08$wuAqPiKJlVN27eF5qJp.RuQYuy6ZYONW7a/UWYxDTtwKFCdB8F19y";
const secret = "the secret of a kitchen";
const password = "canary-of-a-password";
const broker = { id: "b", type: "mqtt-broker", name: "main", broker: "127.0.0.1", port: "1", autoConnect: false };

let service: Service;
let folder: Awaited<ReturnType<typeof mkdtempDisposable>>;

beforeAll(async () => {
  folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  await writeFile(
    join(folder.path, "settings.js"),
    `module.exports = {
  flowFile: "flows.json",
  credentialSecret: "${secret}",
  adminAuth: { type: "credentials", users: [{ username: "admin", password: "${hash}", permissions: "*" }] },
  contextStorage: { default: { module: "localfilesystem" } },
  functionGlobalContext: { answer: 42, os: require("os") },
};
`,
  );
  const nodeRed = fileURLToPath(new URL("node-red/node-red.ts", import.meta.url));
  const running = promisify(execFile)(process.execPath, [nodeRed, folder.path]);
  const flows = [
    ...endpoint("/hello", `msg.payload = "hello"`),
    ...endpoint("values", `msg.payload = [global.get("visits"), flow.get("'a key'"), global.get("answer")]`),
    { ...broker, credentials: { user: "cook", password } },
    { id: "e", type: "exec", z: "t", name: "shell", command: "", x: 1, y: 1, wires: [[], [], []] },
  ];
  running.child.stdin?.end(JSON.stringify(flows));
  await running;
  await mkdir(join(folder.path, "context", "global"), { recursive: true });
  await writeFile(join(folder.path, "context", "global", "global.json"), '{"visits": 3}');
  await mkdir(join(folder.path, "context", "tab of values"));
  await writeFile(join(folder.path, "context", "tab of values", "flow.json"), '{"a key": {"deep": [1]}}');
  const dependencies = { "node-red-contrib-installed": "1.0.0", "left-pad": "1.0.0" };
  await writeFile(join(folder.path, "package.json"), JSON.stringify({ dependencies }));
  const nodes = { exec: { types: ["exec"] } };
  await writeFile(join(folder.path, ".config.nodes.json"), JSON.stringify({ "node-red-contrib-installed": { nodes } }));
  const runtime = { contextStorage: { default: { module: "localfilesystem" } }, globalContext: { answer: 42 } };
  service = await startService({ config: { runtime } });
});
afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
  await folder?.[Symbol.asyncDispose]();
});

const env = () => ({ FLOWGATE_SERVER: service.url });

test("a dry run shows what would be imported, and what not", async () => {
  const config = join(folder.path, "flowgate.yaml");
  const args = ["import", folder.path, "--dry-run", "--write-config", config];
  const { code, stdout, stderr } = await runCommand(args, { env: env() });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toContain(`${folder.path}/flows.json: 10 nodes, 1 of them with credentials\n`);
  const rows = stdout.split("\n").map((line) => line.split(/ {2,}/).join(" | "));
  expect(rows).toEqual(
    expect.arrayContaining([
      "NAME | FILE | OUTCOME | DETAIL",
      "adminAuth | settings.js:4 | taken over | adminAuth",
      "contextStorage.default | settings.js:5 | taken over | runtime.contextStorage.default",
      "functionGlobalContext.os | settings.js:6 | not possible | it is computed when the file runs: load modules in the Setup tab of function nodes",
      "context | context/global/global.json | taken over | 1 value in the store default",
    ]),
  );
  const written = `adminAuth:
  users:
    - username: admin
      password: ${hash}
      permissions: "*"
runtime:
  contextStorage:
    default:
      module: localfilesystem
  globalContext:
    answer: 42
  allow:
    childProcess: true # "exec" "shell"
`;
  expect(stdout).toContain(`For flowgate.yaml:\n${written}`);
  expect(await readFile(config, "utf8")).toBe(written);
  expect(await runCommand(args, { env: env() })).toMatchObject({
    code: 1,
    stderr: `flowgate: ${config}: exists already: name another file for --write-config\n`,
  });
  // The other module has only types that are installed.
  expect(stdout).toContain("which requires the permission modules.write:\nflowgate module install left-pad@1.0.0\n");
  expect(stdout).toContain("credentials: + password, + user\n");
  expect(stdout).not.toContain(password);
  expect((await service.send("GET", "/flows")).json()).toEqual([]);
});

test("deploys the flows, credentials and context of a Node-RED, which then run", async () => {
  const { code, stdout } = await runCommand(["import", folder.path, "-m", "from Node-RED"], { env: env() });
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining("Its flows are running.\n") });
  expect(stdout).toContain("Imported 2 values of context.\n");
  expect(await service.get("/hello")).toBe("hello");
  expect(JSON.parse(await service.get("/values"))).toEqual([3, { deep: [1] }, 42]);
  // The credentials are the same, too. For programs, the report is a part of the result.
  const again = await runCommand(["import", folder.path, "--skip-context", "-o", "json"], { env: env() });
  expect(again.code).toBe(0);
  expect(JSON.parse(again.stdout)).toMatchObject({
    outcome: "running",
    report: expect.arrayContaining([
      { name: "adminAuth", file: "settings.js:4", outcome: "taken_over", detail: "adminAuth" },
    ]) as unknown,
    configuration: { runtime: { globalContext: { answer: 42 } } },
    modules: [{ name: "left-pad", version: "1.0.0" }],
  });
});

test("values of context whose store the service does not have are reported", async () => {
  const path = join(folder.path, "settings.js");
  const settings = await readFile(path, "utf8");
  await writeFile(path, settings.replace("{ default: {", "{ other: {"));
  expect(await runCommand(["import", folder.path], { env: env() })).toMatchObject({
    code: 1,
    stderr: `flowgate: The flows were deployed, but not all else was imported:
flowgate: the service has no store "other": add runtime.contextStorage to its configuration, start it again, and import again
`,
  });
});

test("needs the secret of the credentials", async () => {
  await writeFile(join(folder.path, "settings.js"), 'module.exports = { flowFile: "flows.json" };\n');
  await writeFile(join(folder.path, ".config.runtime.json"), "{}");
  const args = ["import", folder.path, "--dry-run"];
  const hint =
    "flowgate: The secret can be in the file of --credential-secret-file, or in NODE_RED_CREDENTIAL_SECRET.\n";
  const without = await runCommand(args, { env: env() });
  expect(without).toEqual({ code: 1, stdout: "", stderr: expect.stringContaining(hint) });
  const wrong = await runCommand(args, { env: { ...env(), NODE_RED_CREDENTIAL_SECRET: "wrong" } });
  expect(wrong).toEqual({ code: 1, stdout: "", stderr: expect.stringContaining(hint) });

  await writeFile(join(folder.path, "secret"), `${secret}\n`);
  const file = join(folder.path, "secret");
  expect(await runCommand([...args, "--credential-secret-file", file], { env: env() })).toMatchObject({ code: 0 });
  expect(await runCommand(args, { env: { ...env(), NODE_RED_CREDENTIAL_SECRET: secret } })).toMatchObject({ code: 0 });
});

test("asks for the secret at a terminal, without showing it", needsTerminal, async () => {
  const args = ["import", folder.path, "--dry-run"];
  const { code, shown } = await atTerminal(args, [["credentialSecret of Node-RED", `${secret}\r`]], env());
  expect(code).toBe(0);
  expect(shown).toContain("10 nodes, 1 of them with credentials");
  expect(shown).not.toContain(secret);
});
