import { mkdir, mkdtempDisposable, readdir, readFile, stat, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { deploy } from "../e2e/deploy.ts";
import { functionNode, tab } from "../e2e/flow-builders.ts";
import { bearer } from "../e2e/rest.ts";
import { eventually, type Service, startService } from "../e2e/service.ts";
import { login, passwordOf, user } from "../e2e/users.ts";
import type { Outcome } from "./run-cli.ts";
import { runCommand } from "./run-command.ts";
import { atTerminal, needsTerminal } from "./terminal.ts";

let service: Service;
let folder: AsyncDisposable & { readonly path: string };
let configPath: string;
let env: Record<string, string>;

beforeAll(async () => {
  folder = await mkdtempDisposable(join(tmpdir(), "flowgate-cli-"));
  service = await startService({
    config: {
      adminAuth: { type: "credentials", users: [user("ada", "*"), user("bob", ["settings.read"])] },
      runtime: { freshProcess: "never" },
    },
  });
  env = { XDG_CONFIG_HOME: folder.path };
  configPath = join(folder.path, "flowgate/config.yaml");
  await succeed(["server", "add", "local", `${service.url}/`]);
  await succeed(["login", "-u", "ada", "--password-stdin"], { input: `${passwordOf("ada")}\n` });
});
afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
  await folder?.[Symbol.asyncDispose]();
});

const run = (args: readonly string[], options: { input?: string; env?: Record<string, string> } = {}) =>
  runCommand(args, { ...options, env: { ...env, ...options.env } });

async function succeed(args: readonly string[], options: Parameters<typeof run>[1] = {}): Promise<string> {
  const { code, stdout, stderr } = await run(args, options);
  expect({ args, code, stderr }).toMatchObject({ code: 0 });
  return stdout;
}

async function json(args: readonly string[]): Promise<Record<string, unknown>> {
  return JSON.parse(await succeed([...args, "-o", "json"])) as Record<string, unknown>;
}

/** The REST API's answer to the same user. */
async function rest(path: string, headers: Record<string, string> = {}): Promise<unknown> {
  const reply = await service.send("GET", path, {
    headers: { ...bearer(await login(service, { username: "ada" })), ...headers },
  });
  return reply.json();
}

const failure = (message: string, code = 1): Outcome => ({ code, stdout: "", stderr: `flowgate: ${message}\n` });

test("keeps the token in a file that only this user can read", async () => {
  const content = await readFile(configPath, "utf8");
  expect(content).toContain(`${service.url}:\n    token: `);
  expect((await stat(configPath)).mode & 0o777).toBe(0o600);
  expect((await stat(join(folder.path, "flowgate"))).mode & 0o777).toBe(0o700);
});

test("keeps the changes of commands that run at the same time", async () => {
  const own = { XDG_CONFIG_HOME: join(folder.path, "shared") };
  const names = ["a", "b", "c", "d"];
  const add = (name: string) => run(["server", "add", name, service.url], { env: own });
  expect((await Promise.all(names.map(add))).map(({ code }) => code)).toEqual(names.map(() => 0));
  const list = await succeed(["server", "list", "-o", "json"], { env: own });
  expect(names.filter((name) => !list.includes(`"${name}"`))).toEqual([]);
});

test("replaces the lock of a command that was killed", async () => {
  const own = { XDG_CONFIG_HOME: join(folder.path, "killed") };
  await succeed(["server", "add", "a", service.url], { env: own });
  const lock = join(folder.path, "killed/flowgate/config.yaml.lock");
  await writeFile(lock, "");
  const longAgo = new Date(Date.now() - 60_000);
  await utimes(lock, longAgo, longAgo);
  await succeed(["server", "add", "b", service.url], { env: own });
  expect(await readdir(join(folder.path, "killed/flowgate"))).toEqual(["config.yaml"]);
});

test("shows what runs, for people and for programs", async () => {
  const text = await succeed(["status"]);
  expect(text).toMatch(/^Flows {2,}running$/m);
  expect(text).toMatch(/^User {2,}ada$/m);
  expect(text).not.toContain("\x1b");
  const { settings, revision } = await json(["status"]);
  expect(settings).toEqual(await rest("/settings"));
  expect(revision).toMatchObject({ active: true, outcome: "running" });
});

test("status names the isolation of the flows, and why there is no stronger one", async () => {
  const { runtime } = (await rest("/settings")) as {
    runtime: { isolation: { level: string; user?: number; message?: string } };
  };
  const { level, user: id, message } = runtime.isolation;
  const as = id === undefined ? "" : `, user ${id}`;
  const line = /^Isolation {2,}(.*)$/m.exec(await succeed(["status"]))?.[1];
  expect(line).toBe(`${level}${as}${message === undefined ? "" : ` (${message})`}`);
  await using open = await startService({ config: { runtime: { isolate: "off" } } });
  const { stdout } = await run(["status", "--server", open.url]);
  expect(stdout).toMatch(/^Isolation {2,}none \(runtime\.isolate is off\)$/m);
});

test("exits with 4 if the flows do not run, and shows why", async () => {
  const headers = bearer(await login(service, { username: "ada" }));
  await deploy(
    service,
    { flows: [tab("t"), { id: "n", type: "no such type", z: "t", x: 1, y: 1, wires: [] }] },
    "full",
    headers,
  );
  const { code, stdout } = await run(["status"]);
  expect(code).toBe(4);
  expect(stdout).toMatch(/^Flows {2,}failed$/m);
  expect(stdout).toMatch(/^Missing types {2,}no such type$/m);
  const restart = await run(["runtime", "restart"]);
  expect(restart.code).toBe(4);
  expect(restart.stderr).toContain("no such type");
});

test("reads flows, one flow and a revision", async () => {
  const headers = bearer(await login(service, { username: "ada" }));
  const flows = [
    { ...tab("one"), label: "\x1b]0;owned\x07One" },
    functionNode("f", { z: "one", name: "\x1b[2Jclear" }),
  ];
  const rev = await deploy(service, { flows }, "full", headers);
  expect(await json(["get", "flows"])).toEqual(await rest("/flows", { "service-api-version": "v2" }));
  expect(await json(["get", "flow", "one"])).toEqual(await rest("/flow/one"));
  expect(await json(["show", rev])).toMatchObject({ revision: await rest(`/revisions/${rev}`) });
  // What a name contains can't reach the terminal.
  expect(await succeed(["get", "flows"])).toMatch(/^one {2,}tab {2,}\\x1b\]0;owned\\x07One {2,}1$/m);
  expect(await succeed(["get", "flow", "one"])).toMatch(/^f {2,}function {2,}\\x1b\[2Jclear$/m);
  expect(await succeed(["runtime", "restart"])).toBe(`The flows of revision ${rev} are running in a new process.\n`);
  expect(await run(["runtime", "restart", "--clear-files"])).toEqual(
    failure("--clear-files: removes all files that flows have written: confirm it with --yes"),
  );
  const runtimeDir = join(service.dataDir, "runtime");
  await writeFile(join(runtimeDir, "left"), "by flows");
  expect(await succeed(["runtime", "restart", "--clear-files", "--yes"])).toContain("are running in a new process");
  expect(await readdir(runtimeDir)).toEqual([]);
  const entries = await json(["audit", "list"]);
  expect(JSON.stringify(entries)).toContain('"detail":"files removed"');
  expect(await run(["get", "flow", "none"])).toEqual(failure('there is no flow "none": no tab has this id.'));
});

test("prints YAML", async () => {
  expect(await succeed(["whoami", "-o", "yaml"])).toBe('username: ada\npermissions:\n  - "*"\n');
});

test("creates, lists and revokes tokens, and shows a token once", async () => {
  const { stdout, stderr } = await run(["token", "create", "ci", "--scope", "settings.read", "--expires-in", "1d"]);
  expect(stdout).toMatch(/^\S{30,}\n$/);
  const [, id = ""] = /created token (\S+), valid until/.exec(stderr) ?? [];
  const token = { FLOWGATE_TOKEN: stdout };
  expect(await succeed(["whoami"], { env: token })).toMatch(/^Permissions {2,}settings.read$/m);
  expect(await run(["audit", "list"], { env: token })).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("lacks the permission audit.read."),
  });
  expect(await succeed(["token", "list"])).toMatch(new RegExp(`^${id} +ci +ada +settings.read `, "m"));
  expect(await run(["token", "list", "--limit", "1"])).toMatchObject({
    code: 0,
    stderr: "flowgate: only the first 1 are shown: use a larger --limit.\n",
  });
  expect(await run(["token", "revoke", "none", id, "none2"])).toEqual({
    code: 1,
    stdout: "Revoked 1 token.\n",
    stderr: "flowgate: There is no token with the id none, none2: list them with flowgate token list.\n",
  });
  expect(await run(["whoami"], { env: token })).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/rejects the token in FLOWGATE_TOKEN\. .* unset it and log in with: flowgate login/),
  });
  expect(await run(["token", "revoke", "--user", "bob"])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("confirm with --yes"),
  });
  expect(await succeed(["token", "revoke", "--user", "bob", "--yes"])).toBe("Revoked 0 tokens of bob.\n");
});

test("a token with the scope that the help recommends suffices for deployments", async () => {
  const [, scope = ""] = /token create ci --scope '([^']+)'/.exec(await succeed(["token", "create", "--help"])) ?? [];
  const token = (await succeed(["token", "create", "robot", "--scope", scope])).trim();
  const robot = {
    env: { FLOWGATE_TOKEN: token, FLOWGATE_SERVER: service.url, XDG_CONFIG_HOME: join(folder.path, "none") },
  };
  const [good, bad] = [join(folder.path, "good.json"), join(folder.path, "bad.json")];
  await writeFile(good, JSON.stringify([tab("by-robot")]));
  await writeFile(bad, JSON.stringify([tab("by-robot"), { id: "n", type: "unknown type", z: "by-robot", wires: [] }]));
  expect(await succeed(["whoami"], robot)).toContain("User         ada\nToken        robot\n");
  expect(await succeed(["deploy", good, "--rev", "@", "--yes", "--force"], robot)).toContain("Its flows are running.");
  expect(await succeed(["status"], robot)).toMatch(/^Deployed {2,}\S+ \S+ by ada \(token robot\)$/m);
  const failed = await run(["deploy", bad, "--yes", "--force"], robot);
  expect(failed).toMatchObject({ code: 4, stderr: expect.stringContaining("missing node types: unknown type") });
  expect(await succeed(["undo", "--yes"], robot)).toContain("Its flows are running.");
  expect(await succeed(["history", "--limit", "1", "--full"])).toContain("ada (token robot)");
  expect(await succeed(["show", "@"])).toMatch(/^By {2,}ada \(token robot\), 127\.0\.0\.1, connect$/m);
  expect(await succeed(["audit", "list", "--kind", "deployment", "--limit", "1"])).toContain("ada (token robot)");
});

test("whoami works with every token, and adds nothing to the audit log", async () => {
  const token = (await succeed(["token", "create", "least", "--scope", "flows.read"])).trim();
  const before = await succeed(["audit", "verify", "-o", "json"]);
  expect(await succeed(["whoami"], { env: { FLOWGATE_TOKEN: token } })).toMatch(/^Permissions {2,}flows\.read$/m);
  expect(await succeed(["audit", "verify", "-o", "json"])).toBe(before);
});

test("explains a token that has expired", async () => {
  const config = { XDG_CONFIG_HOME: join(folder.path, "expired") };
  await mkdir(join(folder.path, "expired/flowgate"), { recursive: true });
  const token = (await succeed(["token", "create", "short", "--expires-in", "1s"])).trim();
  const tokens = { [service.url]: { token, user: "ada", expireTime: "2026-03-01T00:00:00Z" } };
  await writeFile(join(folder.path, "expired/flowgate/config.yaml"), JSON.stringify({ tokens }), { mode: 0o600 });
  const outcomes = await eventually(async () => {
    const variables = await run(["whoami", "-s", service.url], { env: { FLOWGATE_TOKEN: token } });
    expect(variables.code).toBe(1);
    return [variables, await runCommand(["whoami", "-s", service.url], { env: config })];
  });
  const reason = "The access token is unknown, expired or revoked; issue another one.";
  expect(outcomes).toEqual([
    failure(
      `${service.url} rejects the token in FLOWGATE_TOKEN. ${reason} Set a valid one, or unset it and log in with: flowgate login --server ${service.url}`,
    ),
    failure(
      `The login at ${service.url} has ended. ${reason} Log in again with: flowgate login --server ${service.url}`,
    ),
  ]);
});

test("lists and verifies the audit log, at the server and in the store", async () => {
  const list = await succeed(["audit", "list", "--kind", "sign_in", "--user", "ada", "--since", "1h", "--limit", "1"]);
  expect(list).toMatch(/^SEQ +TIME +KIND .*\n\d+ +\S+ \S+ +sign in +ada +127\.0\.0\.1/);
  const intact = await succeed(["audit", "verify"]);
  const [, head = ""] = /^The audit log is intact: \d+ entries\. Head: (\d+:[0-9a-f]{64})\n$/.exec(intact) ?? [];
  expect(await succeed(["audit", "verify", head, "--data-dir", service.dataDir])).toContain("intact");
  const inStore = JSON.parse(await succeed(["audit", "verify", "--data-dir", service.dataDir, "-o", "json"]));
  expect(inStore).toMatchObject({ intact: true, head });
  expect(JSON.parse(await succeed(["audit", "verify", "-o", "json"]))).toEqual(inStore);
  expect(await run(["audit", "verify", head.replace(/.$/, (last) => (last === "0" ? "1" : "0"))])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("The audit log did not pass the check"),
  });
  expect(await run(["audit", "list", "--kind", "nothing"])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("there is no kind nothing, only sign_in, sign_in_failed"),
  });
});

test("sends the token to the server of the login only", async () => {
  const other = service.url.replace("127.0.0.1", "localhost");
  expect(await run(["whoami", "--server", other])).toEqual(
    failure(`${other} requires a login. Log in with: flowgate login --server ${other}`),
  );
  const variables = { FLOWGATE_TOKEN: "secret", FLOWGATE_SERVER: "http://localhost:1" };
  expect((await run(["whoami", "--server", other], { env: variables })).stderr).toContain(
    "FLOWGATE_TOKEN was not sent, since it belongs to FLOWGATE_SERVER",
  );
});

test("works over the Unix socket", async () => {
  const socket = `unix:${service.dataDir}/flowgate.sock`;
  const own = { env: { XDG_CONFIG_HOME: join(folder.path, "socket") } };
  await succeed(["login", "-u", "bob", "--password-stdin", "-s", socket], { input: passwordOf("bob"), ...own });
  expect(await succeed(["whoami", "-s", socket], own)).toContain(`Server       ${socket}\n`);
  // Without the permission to read revisions, the rest is shown.
  expect(await succeed(["status", "-s", socket], own)).toMatch(/^Flows {2,}/m);
  expect(await succeed(["logout", "-s", socket], own)).toBe(`Logged out of ${socket}.\n`);
  expect((await run(["status", "-s", "unix:/nowhere.sock"])).stderr).toContain("There is no socket /nowhere.sock.");
});

test("a login at a server that is named makes it the current one", async () => {
  const own = { env: { XDG_CONFIG_HOME: join(folder.path, "named") } };
  const other = service.url.replace("127.0.0.1", "localhost");
  const logIn = (server: string) =>
    succeed(["login", "-u", "bob", "--password-stdin", "-s", server], { input: passwordOf("bob"), ...own });
  const note = (name: string): string => `It is the current server from now on, under the name ${name}.\n`;
  await succeed(["server", "add", "local", service.url], own);
  expect(await logIn(service.url)).toBe(`Logged in to ${service.url} as bob.\n`);
  const name = `localhost-${service.port}`;
  expect(await logIn(other)).toBe(`Logged in to ${other} as bob.\n${note(name)}`);
  expect(await succeed(["whoami"], own)).toContain(`Server       ${other}\n`);
  // A server that is saved keeps its name.
  expect(await logIn(service.url)).toBe(`Logged in to ${service.url} as bob.\n${note("local")}`);
  await succeed(["login", "-u", "bob", "--password-stdin", "--server", name], { input: passwordOf("bob"), ...own });
  expect(await succeed(["server", "list"], own)).toBe(
    `   NAME             SERVER                  USER\n   local            ${service.url}  bob\n*  ${name}  ${other}  bob\n`,
  );
  const variable = { input: passwordOf("bob"), env: { ...own.env, FLOWGATE_SERVER: service.url } };
  expect((await run(["login", "-u", "bob", "--password-stdin", "-s", other], variable)).stderr).toBe(
    "flowgate: warning: FLOWGATE_SERVER is set, and names the server that commands use.\n",
  );
});

test("switches between servers", async () => {
  await succeed(["server", "add", "secure", "https://flows.example.com", "--tls-server-name", "flows"]);
  expect(await run(["server", "add", "local", "http://a"])).toMatchObject({ code: 1, stdout: "" });
  expect(await succeed(["server", "list"])).toBe(
    `   NAME    SERVER                     USER\n*  local   ${service.url.padEnd(27)}ada\n   secure  https://flows.example.com\n`,
  );
  expect(JSON.parse(await succeed(["server", "list", "-o", "json"]))).toMatchObject([
    { name: "local", current: true, user: "ada" },
    { name: "secure", current: false, server: "https://flows.example.com", tlsServerName: "flows" },
  ]);
  expect((await run(["status", "--server", "none"])).stderr).toContain("the name of a saved one: local, secure.");
  await succeed(["server", "use", "secure"]);
  expect(await succeed(["whoami", "--server", "local"])).toContain("ada");
  expect(await succeed(["whoami"], { env: { FLOWGATE_SERVER: "local" } })).toContain("ada");
  await succeed(["server", "remove", "secure"]);
  await succeed(["server", "use", "local"]);
});

test("keeps the comments of the configuration file", async () => {
  await writeFile(configPath, `# mine\n${await readFile(configPath, "utf8")}`);
  await succeed(["server", "use", "local"]);
  expect(await readFile(configPath, "utf8")).toMatch(/^# mine\n/);
});

test("logs in and out at a terminal, in colours, and revokes the token", needsTerminal, async () => {
  const fresh = { XDG_CONFIG_HOME: join(folder.path, "fresh"), FLOWGATE_SERVER: service.url };
  const { code, shown } = await atTerminal(
    ["login"],
    [
      ["Username", "ada\r"],
      ["Password", `${passwordOf("ada")}\r`],
    ],
    fresh,
  );
  expect({ code, shown }).toMatchObject({
    code: 0,
    shown: expect.stringContaining(`Logged in to ${service.url} as ada.`),
  });
  expect(shown).not.toContain(passwordOf("ada"));
  const [, token = ""] =
    /token: (\S+)/.exec(await readFile(join(fresh.XDG_CONFIG_HOME, "flowgate/config.yaml"), "utf8")) ?? [];
  const status = await atTerminal(["status"], [], fresh);
  expect(status.shown).toContain("\x1b[1mFlows\x1b[22m");
  expect((await atTerminal(["status"], [], { ...fresh, NO_COLOR: "1" })).shown).not.toContain("\x1b");
  expect(await runCommand(["logout"], { env: fresh })).toEqual({
    code: 0,
    stdout: `Logged out of ${service.url}.\n`,
    stderr: "",
  });
  expect((await runCommand(["whoami"], { env: fresh })).stderr).toContain("requires a login");
  expect((await service.send("GET", "/settings", { headers: bearer(token) })).status).toBe(401);
});

test("a wrong password, and no terminal to prompt on, are explained", async () => {
  const wrong = await run(["login", "-u", "ada", "--password-stdin"], { input: "guess" });
  expect(wrong).toEqual(failure("The username or the password is wrong."));
  expect((await run(["login"])).stderr).toContain("specify --username, and pass the password with --password-stdin.");
});

test("revokes all tokens only after a yes at a terminal", needsTerminal, async () => {
  const revoke = (answer: string) =>
    atTerminal(["token", "revoke", "--all"], [["Revoke all tokens of all users", answer]], env);
  expect(await revoke("n")).toMatchObject({ code: 1, shown: expect.stringContaining("Nothing was revoked.") });
  expect(await succeed(["whoami"])).toContain("ada");
  expect(await revoke("y")).toMatchObject({
    code: 0,
    shown: expect.stringMatching(/Revoked \d+ tokens of all users\./),
  });
  expect((await run(["whoami"])).stderr).toContain(`The login at ${service.url} has ended.`);
});

test("revokes the token of a login that can't be kept", async () => {
  const revocations = async (): Promise<number> =>
    ((await rest("/audit?kind=token_revoked")) as { entries: unknown[] }).entries.length;
  const before = await revocations();
  const { code, stderr } = await run(["login", "-s", service.url, "-u", "bob", "--password-stdin"], {
    input: `${passwordOf("bob")}\n`,
    env: { XDG_CONFIG_HOME: "/dev/null" },
  });
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining("cannot be written") });
  expect(await revocations()).toBe(before + 1);
});
