import { spawn } from "node:child_process";
import { cp, mkdtempDisposable, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { stripVTControlCharacters } from "node:util";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type Node, tab } from "../e2e/flow-builders.ts";
import { eventually, type Service, startService } from "../e2e/service.ts";
import { openTcpProxy } from "../tcp-proxy.ts";
import { cliEnvironment, exitCode, mainPath, type Outcome, runCli } from "./run-cli.ts";
import { runCommand } from "./run-command.ts";
import { type Answer, atTerminal, needsTerminal } from "./terminal.ts";

let service: Service;
let folder: Awaited<ReturnType<typeof mkdtempDisposable>>;

const fn = (func: string): Node => ({
  id: "f",
  type: "function",
  z: "T",
  x: 1,
  y: 1,
  name: "price",
  func,
  wires: [[]],
});
const base: Node[] = [
  tab("T"),
  fn("msg.payload = 1;\nreturn msg;"),
  tab("U"),
  { id: "d", type: "debug", z: "U", x: 1, y: 1, wires: [] },
];
const changed: Node[] = base.map((node) => (node.id === "f" ? fn("msg.payload = 2;\nreturn msg;") : node));
const missing: Node[] = [...base, { id: "n", type: "not-installed", z: "U", x: 1, y: 1, wires: [] }];

beforeAll(async () => {
  service = await startService({ config: { runtime: { freshProcess: "never" } } });
});
afterAll(() => service?.[Symbol.asyncDispose]());
beforeEach(async (context) => {
  folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  context.onTestFinished(() => folder[Symbol.asyncDispose]());
  await deploy(base);
});

const env = () => ({ FLOWGATE_SERVER: service.url });
const flowgate = (...args: string[]): Promise<Outcome> => runCommand(args, { env: env(), cwd: folder.path });
const inTerminal = (args: string[], ...answers: Answer[]) => atTerminal(args, answers, env());

/** By another client. Returns the rev. */
async function deploy(flows: readonly Node[]): Promise<string> {
  const headers = { "content-type": "application/json", "service-api-version": "v2" };
  const reply = await service.send("POST", "/flows", { headers, body: JSON.stringify({ flows }) });
  expect(reply.status).toBe(200);
  return (reply.json() as { rev: string }).rev;
}

async function active(): Promise<{ flows: Node[]; rev: string }> {
  const headers = { "service-api-version": "v2" };
  return (await service.send("GET", "/flows", { headers })).json() as { flows: Node[]; rev: string };
}

async function file(flows: unknown, name = "flows.json"): Promise<string> {
  await writeFile(join(folder.path, name), typeof flows === "string" ? flows : JSON.stringify(flows));
  return name;
}

const path = async (flows: unknown): Promise<string> => join(folder.path, await file(flows));

const priceChange = `0 added, 0 removed, 1 changed

tab "tab T" (T)
  ~ function "price" (f)
      func: from line 1
        - msg.payload = 1;
        + msg.payload = 2;
`;

test("shortens long values at a terminal only, and not with --full", needsTerminal, async () => {
  const lines = Array.from({ length: 27 }, (_, at) => `line${at}`);
  const long = base.map((node) =>
    node.id === "f"
      ? { ...fn([...lines, "y".repeat(100)].join("\n")), info: `"${"x".repeat(195)}`, list: Array(200).fill(1) }
      : node,
  );
  const whole = {
    info: `      info: (none) -> "\\"${"x".repeat(195)}"`,
    list: `      list: (none) -> [${Array(200).fill(1).join(",")}]`,
    lines: ["        + line26", `        + ${"y".repeat(100)}`],
  };
  const target = await path(long);
  const args = ["diff", target];
  const piped = (await flowgate(...args)).stdout.split("\n");
  const full = stripVTControlCharacters((await inTerminal([...args, "--full"])).shown).split("\r\n");
  for (const text of [piped, full]) {
    expect(text).toEqual(expect.arrayContaining([whole.info, whole.list, ...whole.lines]));
    expect(text.join()).not.toContain("--full");
  }
  const { shown } = await inTerminal(args);
  const short = stripVTControlCharacters(shown).split("\r\n");
  expect(short).toEqual(
    expect.arrayContaining([
      `      info: (none) -> "\\"${"x".repeat(77)}... (199 characters)`,
      `${whole.list.slice(0, 300)}... (${whole.list.length} characters)`,
      "        + line11",
      "        + ... (16 more lines)",
      "Long values are shortened: --full shows them.",
    ]),
  );
  expect(short).not.toContain("        + line12");
  // A plan is the same, and is what pipelines show.
  expect((await flowgate("plan", target)).stdout.split("\n")).toEqual(expect.arrayContaining(whole.lines));
  expect((await inTerminal(["plan", target])).shown).toContain("(16 more lines)");
});

test("validates files without a server", async () => {
  const offline = { cwd: folder.path, env: { FLOWGATE_SERVER: "http://127.0.0.1:1" } };
  expect(await runCommand(["validate", await file(base)], offline)).toEqual({
    code: 0,
    stdout: "The flows are valid.\n",
    stderr: "",
  });
  await file('[\n  {"id": "T", "type": "tab"},\n  {"id": "T", "type": 7}\n]', "bad.json");
  expect(await runCommand(["validate", "bad.json"], offline)).toEqual({
    code: 1,
    stdout: "",
    stderr: expect.stringMatching(/^flowgate: bad\.json:3:\d+: type: .*\n$/),
  });
});

test("shows differences, with exit code 2", async () => {
  expect(await flowgate("diff", await file(changed))).toEqual({ code: 2, stdout: priceChange, stderr: "" });
  expect(await flowgate("diff", await file(base))).toEqual({ code: 0, stdout: "No changes.\n", stderr: "" });
  const { code, stdout } = await flowgate("diff", await file(changed), "-o", "json");
  expect(code).toBe(2);
  expect(JSON.parse(stdout)).toMatchObject({
    containers: [{ kind: "tab", id: "T", nodes: [{ id: "f", change: "changed" }] }],
  });
});

test("compares a file with an earlier revision, and two revisions", async () => {
  const rev = await deploy(changed);
  expect(await flowgate("diff", await file(changed), "--base", "@~1")).toMatchObject({ code: 2, stdout: priceChange });
  expect(await flowgate("diff", "--rev", rev.slice(0, 10))).toMatchObject({ code: 2, stdout: priceChange });
  expect(await flowgate("diff", "--rev", "@", "--base", "active")).toMatchObject({ code: 0, stdout: "No changes.\n" });
});

test("plans a deployment without deploying it", async () => {
  const { rev } = await active();
  expect(await flowgate("plan", "--type", "nodes", await file(changed))).toEqual({
    code: 0,
    stdout: `${priceChange}\nnodes to start: 0, to stop: 0, to restart: 1\n`,
    stderr: "",
  });
  expect(await flowgate("plan", await file(missing))).toMatchObject({
    code: 4,
    stdout: expect.stringContaining("missing type: not-installed, of n; no node starts\n"),
    stderr: "flowgate: The flows would not run: install the modules of the missing types first.\n",
  });
  expect((await active()).rev).toBe(rev);
});

test("plans show what is wrong because of them, and on request what was wrong before", async () => {
  const wired = (id: string): Node => ({ id, type: "inject", z: "U", x: 1, y: 1, wires: [["gone"]] });
  await deploy([...base, wired("old")]);
  const warning = (id: string): string =>
    `inject "${id}" in tab "tab U": it is wired to "gone", which is not a node that can receive its messages\n`;
  const target = await file([...base, wired("old"), wired("new")]);
  const counted = `warning: ${warning("new")}warnings that the active flows have too: 1\n`;
  expect((await flowgate("plan", target)).stdout).toMatch(new RegExp(`to restart: \\d+\n${counted}$`));
  expect((await flowgate("plan", target, "--all-warnings")).stdout).toContain(`${counted}  ${warning("old")}`);
  const { warnings } = JSON.parse((await flowgate("plan", target, "-o", "json")).stdout) as { warnings: unknown[] };
  expect(warnings).toMatchObject([
    { nodeId: "old", existing: true },
    { nodeId: "new", existing: false },
  ]);
});

test("does not plan for another revision than --rev, but a merge with the active one", async () => {
  const rev = await deploy(base.map((node) => (node.id === "d" ? { ...node, name: "log" } : node)));
  expect(await flowgate("plan", await file(changed), "--rev", "@~1")).toEqual({
    code: 3,
    stdout: "",
    stderr: expect.stringContaining(`flowgate: Conflict: revision ${rev.slice(0, 8)} (`),
  });
  expect(await flowgate("plan", "flows.json", "--rev", "@~1", "--merge")).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(priceChange),
  });
  expect((await active()).rev).toBe(rev);
});

test("reads the flows again, and restarts all nodes", async () => {
  const { rev, flows } = await active();
  expect(await flowgate("deploy", "--type", "reload")).toEqual({
    code: 0,
    stdout: expect.stringMatching(
      /^nodes to start: 0, to stop: 0, to restart: 2\n\nDeployed revision \S{8}\. Its flows are running\.\n$/,
    ),
    stderr: "",
  });
  expect(await active()).toMatchObject({ flows, rev });
  expect(await flowgate("deploy", "--type", "reload", await file(base))).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("--type reload takes no files."),
  });
});

test("deploys a file, with a message, and not again if nothing has changed", async () => {
  const first = await flowgate("deploy", await file(changed), "-m", "new price");
  expect(first).toEqual({
    code: 0,
    stdout: expect.stringMatching(/^0 added, .*\n\nDeployed revision \S{8}\. Its flows are running\.\n$/s),
    stderr: "",
  });
  const { rev, flows } = await active();
  expect(flows).toEqual(changed);
  expect((await service.send("GET", `/revisions/${rev}`)).json()).toMatchObject({ message: "new price" });

  expect((await flowgate("plan", "flows.json")).stdout).toMatch(
    /^No changes: these flows are active, and flowgate deploy would restart nothing\.\n/,
  );
  expect(await flowgate("deploy", "flows.json")).toEqual({
    code: 0,
    stdout: `No changes: revision ${rev.slice(0, 8)} remains active.\n`,
    stderr: "",
  });
  expect((await active()).rev).toBe(rev);
});

test("deploys flows and credentials from several sources", async () => {
  const secret = { ...tab("T"), id: "s", type: "mqtt-broker", name: "main", port: 1883 };
  const config = { id: "g", type: "global-config", env: [{ name: "KEY", type: "cred", value: "" }] };
  await file([secret, { ...config, credentials: { map: { INLINE: "i", has_INLINE: true } } }], "broker.json");
  await file({ s: { user: "u", password: "p" }, g: { map: { KEY: "k", has_KEY: true } } }, "credentials.json");
  const outcome = await runCommand(["deploy", "-", "broker.json", "--credentials", "credentials.json"], {
    input: JSON.stringify(base),
    env: env(),
    cwd: folder.path,
  });
  expect(outcome).toMatchObject({ code: 0, stdout: expect.stringContaining("credentials: + password, + user\n") });
  expect(outcome.stdout).toContain("credentials: + INLINE, + KEY\n");
  expect((await active()).flows).toEqual([...base, secret, config]);
});

test("prints the response for programs", async () => {
  const { code, stdout, stderr } = await flowgate("deploy", await file(changed), "-o", "json");
  expect({ code, response: JSON.parse(stdout) }).toEqual({
    code: 0,
    response: { rev: (await active()).rev, outcome: "running" },
  });
  expect(stderr).toContain("nodes to start");
});

test("exits with 4 and the reason if the flows do not run", async () => {
  const outcome = await flowgate("deploy", await file(missing), "--force");
  const { rev } = await active();
  expect(outcome).toMatchObject({
    code: 4,
    stderr: `flowgate: Deployed revision ${rev.slice(0, 8)}, but its flows do not run: missing node types: not-installed
flowgate: Correct them and deploy again, or deploy the previous ones with flowgate undo.
`,
  });
});

const failing = base.map((node) => (node.id === "f" ? { ...node, initialize: "throw new Error('start')" } : node));

test.each([
  [
    "4 while the active flows do not run, if a node type is missing",
    missing,
    { code: 4, problem: "its flows do not run", reason: "missing node types: not-installed" },
    { code: 4, stdout: /^Flows +failed$\nHealth +failed$/m },
  ],
  [
    "5 while the active flows run with errors, if a node logs an error",
    failing,
    {
      code: 5,
      problem: "its flows run with errors",
      reason: 'nodes logged errors while they were started: function "price" (f)',
    },
    { code: 5, stdout: /^Flows +running, 1 node with errors$\nHealth +degraded$/m },
  ],
])("exits with %s", async (_, flows, { code: exit, problem, reason }, status) => {
  const rev = (await deploy(flows)).slice(0, 8);
  const unchanged = {
    code: exit,
    stdout: "",
    stderr: `flowgate: No changes: revision ${rev} remains active, but ${problem}: ${reason}
flowgate: Correct them and deploy again, or deploy the previous ones with flowgate undo.
`,
  };
  expect(await flowgate("deploy", await file(flows))).toEqual(unchanged);
  expect(await flowgate("deploy", await file(flows), "--wait", "1")).toEqual(unchanged);
  expect(await flowgate("export", "flows")).toMatchObject({ code: 0 });
  expect(await flowgate("sync", "flows", "--yes")).toEqual(unchanged);
  expect(await flowgate("rollback", "@", "--yes")).toEqual(unchanged);
  expect(await flowgate("status")).toMatchObject({
    code: status.code,
    stdout: expect.stringMatching(status.stdout) as string,
  });
  const { code, stdout } = await flowgate("deploy", await file(flows), "-o", "json");
  expect({ code, response: JSON.parse(stdout) }).toMatchObject({
    code: exit,
    response: { outcome: exit === 4 ? "failed" : "degraded" },
  });
});

test("deploys flows that would not run, or that lose credentials, only with --force if nobody is asked", async () => {
  const { rev } = await active();
  expect(await flowgate("deploy", await file(missing), "--yes")).toMatchObject({
    code: 4,
    stderr: `flowgate: Nothing was deployed. The flows would not run: these node types are not installed: not-installed
flowgate: Install their modules first, or repeat with --force.
`,
  });
  const requiring = { ...fn("return msg;"), libs: [{ var: "x", module: "not-installed" }] };
  const lacking = base.map((node) => (node.id === "f" ? requiring : node));
  expect(await flowgate("deploy", await file(lacking), "--yes")).toMatchObject({
    code: 4,
    stderr: `flowgate: Nothing was deployed. The flows would not run: these modules are not installed: not-installed
flowgate: Install them first, or repeat with --force.
`,
  });
  expect((await active()).rev).toBe(rev);
  const config = { id: "c", type: "mqtt-broker", name: "plant" };
  await deploy([...base, { ...config, credentials: { password: "s3cret" } }]);
  const changed = { ...config, type: "http request" };
  const lost = await flowgate("deploy", await file([...base, changed]), "--yes");
  expect(lost).toMatchObject({
    code: 1,
    stderr: `flowgate: Nothing was deployed. Credentials would be lost:
flowgate: mqtt-broker "plant": its type becomes "http request", and its credentials are lost: password
flowgate: Add them to the deployment, keep the nodes as they are, or repeat with --force.
`,
  });
  expect(await flowgate("deploy", await file([...base, changed]), "--yes", "--force")).toMatchObject({ code: 0 });
  expect(await flowgate("deploy", await file([...base, config]), "--yes")).toMatchObject({ code: 0 });
  // Nothing is lost by a removal.
  expect(await flowgate("deploy", await file(base), "--yes")).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(
      'mqtt-broker "plant": its credentials are removed with it: password; they come back',
    ),
  });
  expect(await flowgate("deploy", await file([...base, config]), "--yes")).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("credentials: + password\n"),
  });
});

test("removes all tabs, or more than half of the nodes, only with --force if nobody is asked", async () => {
  const { rev } = await active();
  const [first, node, second, other] = base as [Node, Node, Node, Node];
  const refusal = (removed: string) => ({
    code: 1,
    stderr: `flowgate: Nothing was deployed. It would remove ${removed}.
flowgate: Check that these are all of the flows, and repeat with --force.
`,
  });
  const replaced = [tab("V"), { ...node, z: "V" }, { ...other, z: "V" }];
  expect(await flowgate("deploy", await file(replaced))).toMatchObject(refusal("all 2 tabs"));
  expect(await flowgate("deploy", await file([second, { ...other, id: "new" }]))).toMatchObject(
    refusal("3 of 4 nodes"),
  );
  await flowgate("export", "out");
  await rm(join(folder.path, "out", "tabs"), { recursive: true });
  expect(await flowgate("sync", "out", "--yes")).toMatchObject(refusal("all 2 tabs"));
  expect((await active()).rev).toBe(rev);
  // Half of them may go, and what is added does not count.
  expect(await flowgate("deploy", await file([first, node, tab("V"), tab("W")]))).toMatchObject({ code: 0 });
  expect(await flowgate("deploy", await file(replaced), "--force")).toMatchObject({ code: 0 });
  expect((await active()).flows).toEqual(replaced);
});

test("removes all tabs without --force if a person says yes", needsTerminal, async () => {
  const target = await path([{ ...base[3], z: "" }]);
  expect(await inTerminal(["deploy", target], ["Deploy this to", "y"])).toMatchObject({ code: 0 });
});

test("a check for differences exits with 2 or 0, whether the flows run or not", async () => {
  await deploy(missing);
  await flowgate("export", "out");
  expect(await flowgate("sync", "out", "--check")).toEqual({ code: 0, stdout: "No changes.\n", stderr: "" });
  expect(await flowgate("sync", "out", "--yes")).toMatchObject({ code: 4 });
  await deploy(base);
  expect(await flowgate("sync", "out", "--check")).toMatchObject({ code: 2 });
});

test("says that a deployment was undone", async () => {
  const outcome = await flowgate("deploy", await file(missing), "--undo-on-failure", "--force");
  const { rev, flows } = await active();
  expect(flows).toEqual(base);
  expect(outcome).toMatchObject({
    code: 4,
    stderr: expect.stringMatching(
      new RegExp(`^flowgate: The flows of revision \\S{8} failed: missing node types: not-installed
flowgate: The previous ones were deployed again, as revision ${rev.slice(0, 8)}\\.
$`),
    ),
  });
  expect(await flowgate("undo", "--yes")).toEqual({
    code: 1,
    stdout: "",
    stderr: expect.stringMatching(
      /^flowgate: There is nothing to undo: revision .* has undone a deployment that failed\. /,
    ),
  });
});

test("says which node has logged more errors than --max-errors", async () => {
  const failing = { ...fn("return msg;"), initialize: "setTimeout(() => node.error(`boom`), 20);" };
  const target = await file(base.map((node) => (node.id === "f" ? failing : node)));
  const args = ["deploy", "--type", "nodes", "--wait", "1", target, "--max-errors"];
  expect(await flowgate(...args, "x")).toMatchObject({ code: 1, stderr: expect.stringContaining("0 to 999999999") });
  expect(await flowgate(...args, "0")).toMatchObject({
    code: 5,
    stderr: expect.stringContaining('nodes logged 1 error (max_errors: 0), first function "price" (f) in "'),
  });
  await deploy(base);
  expect(await flowgate(...args, "1")).toMatchObject({ code: 0 });
});

test("an error that a change causes at once is part of the outcome without --wait", async () => {
  const failing = { ...fn("return msg;"), initialize: "setTimeout(() => node.error(`late`), 500);" };
  const target = await file(base.map((node) => (node.id === "f" ? failing : node)));
  const logged = expect.stringContaining("nodes logged 1 error") as string;
  expect(await flowgate("deploy", target)).toMatchObject({ code: 5, stderr: logged });
  expect(await flowgate("undo", "--yes")).toMatchObject({ code: 0 });
  expect(await flowgate("undo", "--yes")).toMatchObject({ code: 5, stderr: logged });
});

test("does not deploy over another revision than --rev, but merges", async () => {
  const renamed = base.map((node) => (node.id === "d" ? { ...node, name: "log" } : node));
  const rev = await deploy(renamed);
  const args = ["deploy", await file(changed), "--rev", "@~1"];
  expect(await flowgate(...args)).toEqual({
    code: 3,
    stdout: "",
    stderr: expect.stringMatching(
      new RegExp(`^flowgate: Conflict: revision ${rev.slice(0, 8)} \\(.*\\) is active\\. Nothing was deployed\\.
flowgate: See what changed with flowgate show ${rev}\\. Then repeat with --merge .*
$`),
    ),
  });
  expect(await flowgate(...args, "--merge")).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(`, merged with ${rev.slice(0, 8)}. Its flows are running.`),
  });
  expect((await active()).flows).toEqual(changed.map((node) => (node.id === "d" ? { ...node, name: "log" } : node)));
});

test.each([
  [
    ["deploy"],
    "flowgate: Name the files or folders to deploy, or - for stdin.\nflowgate: See flowgate deploy --help.\n",
  ],
  [["deploy", "none.json"], "flowgate: none.json: there is no such file or folder: correct the path\n"],
  [
    ["sync", "none"],
    "flowgate: none: is not a folder. Deploy files with flowgate deploy.\nflowgate: See flowgate sync --help.\n",
  ],
  [["diff"], "flowgate: Name either files or, with --rev, a revision.\nflowgate: See flowgate diff --help.\n"],
])("rejects %j", async (args, stderr) => {
  expect(await flowgate(...args)).toEqual({ code: 1, stdout: "", stderr });
});

test("an export synchronizes without a change; a change of one file deploys that change", async () => {
  expect(await flowgate("export", "out/")).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/^Exported revision \S{8}, 4 nodes, to out\/: \d files written, 0 removed\n$/),
  });
  const { rev } = await active();
  expect(await flowgate("sync", "out")).toMatchObject({ code: 0, stdout: expect.stringMatching(/^No changes/) });
  expect((await active()).rev).toBe(rev);

  const paths = (await readdir(join(folder.path, "out"), { recursive: true })).filter((path) => path.includes("tabs/"));
  expect(paths).toHaveLength(2);
  const [path = ""] = paths.filter((name) => name.includes("tab-t"));
  const before = await readFile(join(folder.path, "out", path), "utf8");
  await writeFile(join(folder.path, "out", path), before.replace("payload = 1", "payload = 2"));
  expect(await flowgate("sync", "out", "--check")).toEqual({ code: 2, stdout: priceChange, stderr: "" });
  expect(await flowgate("sync", "out")).toMatchObject({ code: 0, stdout: expect.stringContaining(priceChange) });
  expect((await active()).flows).toEqual(changed);

  // What others change on the server shows as drift, and an export takes it over.
  await deploy(base);
  expect(await flowgate("sync", "out", "--check")).toMatchObject({ code: 2 });
  expect((await flowgate("export", "out")).stderr).toMatch(/: 1 file written, 0 removed\n$/);
  expect(await readFile(join(folder.path, "out", path), "utf8")).toBe(before);
  expect(await flowgate("sync", "out", "--check")).toMatchObject({ code: 0 });
});

test("exports to stdout and to a file, which deploy to the same flows", async () => {
  const { stdout } = await flowgate("export", "--rev", "@");
  expect(JSON.parse(stdout)).toEqual(base);
  await flowgate("export", "flows.yaml");
  expect(await flowgate("diff", "flows.yaml")).toMatchObject({ code: 0 });
});

test("does not export to an empty path, such as that of an unset variable", async () => {
  expect(await flowgate("export", "")).toEqual({
    code: 1,
    stdout: "",
    stderr:
      "flowgate: The path is empty: specify a file or a folder, or omit it for stdout.\nflowgate: See flowgate export --help.\n",
  });
});

test("removes a tab whose file is removed", async () => {
  await flowgate("export", "out", "-o", "json");
  await cp(join(folder.path, "out"), join(folder.path, "kept"), { recursive: true });
  await rm(join(folder.path, "out", "tabs", "tab-u.json"));
  const { stdout } = await flowgate("sync", "out");
  expect(stdout).toContain('tab "tab U" (U): removed\n  - debug (d)\n');
  expect((await active()).flows.map(({ id }) => id)).toEqual(["T", "f"]);
});

test("ends although the server has not read flows that are too large", async () => {
  const [node] = base;
  await file([{ ...node, info: "x".repeat(40_000_000) }]);
  expect(await runCli(["deploy", "flows.json"], { env: env(), cwd: folder.path })).toEqual({
    code: 1,
    stdout: "",
    stderr: "flowgate: the request message is larger than 16777216 bytes.\n",
  });
});

test("a deployment whose response was lost is made once", async () => {
  await using proxy = await openTcpProxy(service.port);
  const { rev } = await active();
  const deployed = runCommand(["deploy", await file(changed), "--wait", "2"], {
    env: { FLOWGATE_SERVER: `http://127.0.0.1:${proxy.port}` },
    cwd: folder.path,
  });
  // The response is sent two seconds after the commit.
  const committed = await eventually(async () => {
    const now = (await active()).rev;
    expect(now).not.toBe(rev);
    return now;
  });
  proxy.cut();
  expect(await deployed).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(`Deployed revision ${committed.slice(0, 8)}. Its flows are running.`),
  });
  expect((await active()).rev).toBe(committed);
});

test("asks at a terminal, and deploys nothing without a yes", needsTerminal, async () => {
  const { rev } = await active();
  const { code, shown } = await inTerminal(["deploy", await path(changed)], ["Deploy this to", "n"]);
  expect(code).toBe(1);
  expect(shown).toContain('\x1b[33m  ~ function "price" (f)\x1b[39m\r\n');
  expect(shown).toContain(
    "\x1b[31m        - msg.payload = 1;\x1b[39m\r\n\x1b[32m        + msg.payload = 2;\x1b[39m\r\n",
  );
  expect(shown).toContain("flowgate: Nothing was deployed.");
  expect((await active()).rev).toBe(rev);

  const cancelled = await inTerminal(["deploy", join(folder.path, "flows.json")], ["Deploy this to", "\x03"]);
  expect({ code: cancelled.code, rev: (await active()).rev }).toEqual({ code: 130, rev });

  expect(await inTerminal(["deploy", join(folder.path, "flows.json")], ["Deploy this to", "y"])).toMatchObject({
    code: 0,
    shown: expect.stringMatching(/Deployed revision \S{8}\. Its flows are running\./),
  });
  expect((await active()).flows).toEqual(changed);
});

test("exits with 3 if somebody else deploys while it asks", needsTerminal, async () => {
  const renamed = base.map((node) => (node.id === "f" ? { ...node, name: "tariff" } : node));
  let rev = "";
  const { code, shown } = await inTerminal(
    ["deploy", await path(changed)],
    [
      "Deploy this to",
      async () => {
        rev = await deploy(renamed);
        return "y";
      },
    ],
  );
  expect(code).toBe(3);
  expect(shown).toContain(`flowgate: Conflict: revision ${rev.slice(0, 8)} (`);
  expect(shown).toContain('flowgate:   function "price" (f): changed by you, changed by others');
  expect((await active()).flows).toEqual(renamed);
});

test("shows progress while it waits, and no colours with NO_COLOR", needsTerminal, async () => {
  const shown = await inTerminal(["deploy", await path(changed), "--yes", "--wait", "2"]);
  expect(shown).toMatchObject({ code: 0, shown: expect.stringContaining("Deploying") });
  const plain = await atTerminal(["deploy", await path(base), "--yes", "--wait", "2"], [], { ...env(), NO_COLOR: "1" });
  expect(plain).toMatchObject({ code: 0, shown: expect.not.stringContaining("\x1b") });
  expect(plain.shown).not.toContain("Deploying");
});

test("escape sequences of flows do not reach the terminal", needsTerminal, async () => {
  const evil = "\x1b[2J\x1b]0;owned\x07\r\u202e";
  const flows = base.map((node) => (node.id === "d" ? { ...node, name: evil, [`${evil}p`]: evil } : node));
  const { code, shown } = await inTerminal(["plan", await path(flows)]);
  expect(code).toBe(0);
  const colours = new RegExp(String.raw`\x1b\[\d+m|\r\n`, "g");
  expect(shown.replaceAll(colours, "")).not.toMatch(/[\p{Cc}\p{Bidi_Control}]/u);
});

test("Ctrl-C says that the server may still complete the call", async () => {
  const args = ["deploy", await file(changed), "--wait", "60"];
  const child = spawn(process.execPath, [mainPath, ...args], {
    env: { ...cliEnvironment(env()), FLOWGATE_SERVER: service.url },
    cwd: folder.path,
  });
  const before = (await active()).rev;
  await eventually(async () => expect((await active()).rev).not.toBe(before));
  child.kill("SIGINT");
  const [stderr, code] = await Promise.all([text(child.stderr), exitCode(child)]);
  expect({ code, stderr }).toEqual({
    code: 130,
    stderr: expect.stringContaining(
      "flowgate: Interrupted. The server may still complete the call: see flowgate history",
    ),
  });
});
