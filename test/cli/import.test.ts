import { execFile } from "node:child_process";
import { mkdir, mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { endpoint } from "../e2e/flow-builders.ts";
import { type Service, startService } from "../e2e/service.ts";
import { runCli } from "./run-cli.ts";
import { atTerminal, hasTerminal } from "./terminal.ts";

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
  functionGlobalContext: { answer: 42 },
};
`,
  );
  const nodeRed = fileURLToPath(new URL("node-red/node-red.ts", import.meta.url));
  const running = promisify(execFile)(process.execPath, [nodeRed, folder.path]);
  const flows = [
    ...endpoint("/hello", `msg.payload = "hello"`),
    { ...broker, credentials: { user: "cook", password } },
    { id: "e", type: "exec", z: "t", name: "shell", command: "", x: 1, y: 1, wires: [[], [], []] },
  ];
  running.child.stdin?.end(JSON.stringify(flows));
  await running;
  await mkdir(join(folder.path, "context", "global"), { recursive: true });
  await writeFile(join(folder.path, "context", "global", "global.json"), '{"visits": 3}');
  const dependencies = { "node-red-contrib-installed": "1.0.0", "left-pad": "1.0.0" };
  await writeFile(join(folder.path, "package.json"), JSON.stringify({ dependencies }));
  const nodes = { exec: { types: ["exec"] } };
  await writeFile(join(folder.path, ".config.nodes.json"), JSON.stringify({ "node-red-contrib-installed": { nodes } }));
  service = await startService();
});
afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
  await folder?.[Symbol.asyncDispose]();
});

const env = () => ({ FLOWGATE_SERVER: service.url });

test("a dry run shows what would be imported, and what not", async () => {
  const { code, stdout, stderr } = await runCli(["import", folder.path, "--dry-run"], { env: env() });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toContain(`${folder.path}/flows.json: 6 nodes, 1 of them with credentials\n`);
  expect(stdout).toContain(`For flowgate.yaml, the users:\nadminAuth:\n  users:\n    - username: admin\n`);
  expect(stdout).toContain('it is permitted:\nruntime:\n  allow:\n    childProcess: true # "exec" "shell"\n');
  expect(stdout).toContain(`global.json: "visits" can't be imported, because context is kept in memory`);
  expect(stdout).toContain(`Not imported:\n${folder.path}/settings.js:5: functionGlobalContext can't be imported`);
  // The other module has only types that are installed.
  expect(stdout).toContain("where its data directory is:\nflowgate module install left-pad@1.0.0\n");
  expect(stdout).toContain("credentials: + password, + user\n");
  expect(stdout).not.toContain(password);
  expect((await service.send("GET", "/flows")).json()).toEqual([]);
});

test("deploys the flows and credentials of a Node-RED, which then run", async () => {
  const { code, stdout } = await runCli(["import", folder.path, "-m", "from Node-RED"], { env: env() });
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining("Its flows are running.\n") });
  expect(await service.get("/hello")).toBe("hello");
  // The credentials are the same, too.
  expect((await runCli(["import", folder.path], { env: env() })).stdout).toContain("\nNo changes: revision ");
});

test("needs the secret of the credentials", async () => {
  await writeFile(join(folder.path, "settings.js"), 'module.exports = { flowFile: "flows.json" };\n');
  await writeFile(join(folder.path, ".config.runtime.json"), "{}");
  const args = ["import", folder.path, "--dry-run"];
  const hint =
    "flowgate: The secret can be in the file of --credential-secret-file, or in NODE_RED_CREDENTIAL_SECRET.\n";
  const without = await runCli(args, { env: env() });
  expect(without).toEqual({ code: 1, stdout: "", stderr: expect.stringContaining(hint) });
  const wrong = await runCli(args, { env: { ...env(), NODE_RED_CREDENTIAL_SECRET: "wrong" } });
  expect(wrong).toEqual({ code: 1, stdout: "", stderr: expect.stringContaining(hint) });

  await writeFile(join(folder.path, "secret"), `${secret}\n`);
  const file = join(folder.path, "secret");
  expect(await runCli([...args, "--credential-secret-file", file], { env: env() })).toMatchObject({ code: 0 });
  expect(await runCli(args, { env: { ...env(), NODE_RED_CREDENTIAL_SECRET: secret } })).toMatchObject({ code: 0 });
});

test.skipIf(!hasTerminal)("asks for the secret at a terminal, without showing it", async () => {
  const args = ["import", folder.path, "--dry-run"];
  const { code, shown } = await atTerminal(args, [["credentialSecret of Node-RED", `${secret}\r`]], env());
  expect(code).toBe(0);
  expect(shown).toContain("6 nodes, 1 of them with credentials");
  expect(shown).not.toContain(secret);
});
