import { afterAll, beforeAll, expect, test } from "vitest";
import { deploy } from "../e2e/deploy.ts";
import { endpoint, functionNode, type Node, tab } from "../e2e/flow-builders.ts";
import { eventually, type Service, startService, withoutRuntime } from "../e2e/service.ts";
import { user } from "../e2e/users.ts";
import { type Outcome } from "./run-cli.ts";
import { runCommand } from "./run-command.ts";
import { startCli } from "./running-cli.ts";

let service: Service;
let env: Record<string, string>;

const place = { x: 1, y: 1 };

const flows: Node[] = [
  ...endpoint("/fail", `node.error("it failed\\nfor a reason")`),
  { ...tab("T"), label: "Sensors" },
  functionNode("s", { z: "T", name: "sensor", initialize: `node.status({fill: "red", shape: "ring", text: "lost"})` }),
  functionNode("w", { z: "T", name: "warner", initialize: `node.warn("careful")` }),
  {
    id: "tick",
    type: "inject",
    z: "T",
    ...place,
    name: "",
    repeat: "0.05",
    once: true,
    onceDelay: 0,
    props: [{ p: "payload", v: "a reading", vt: "str" }],
    wires: [["shown"]],
  },
  { id: "doubled", type: "subflow", name: "Doubled", info: "", in: [], out: [] },
  functionNode("inner", { z: "doubled" }),
  { id: "d1", type: "subflow:doubled", z: "T", ...place, name: "", wires: [] },
  functionNode("idle", { z: "T" }),
  { id: "shown", type: "debug", z: "T", ...place, name: "readings", active: true, complete: "payload", wires: [] },
];

beforeAll(async () => {
  service = await startService({});
  env = { FLOWGATE_SERVER: service.url };
  await deploy(service, { flows });
  await service.get("/fail");
});
afterAll(() => service?.[Symbol.asyncDispose]());

const flowgate = (...args: string[]): Promise<Outcome> => runCommand(args, { env });

/** The lines of a command that reports flows which run with errors, once one of them matches: counts are a little late. */
function until(pattern: RegExp, ...args: string[]): Promise<string[]> {
  return eventually(async () => {
    const { code, stdout, stderr } = await flowgate(...args);
    expect({ code, stderr }).toEqual({ code: 5, stderr: "" });
    expect(stdout).toMatch(pattern);
    return stdout.trimEnd().split("\n");
  });
}

const linesOf = (lines: readonly string[], word: string): string[] =>
  lines.filter((line) => line.includes(word)).map((line) => line.replaceAll(/ {2,}/g, "  "));

test("status says how many nodes have errors", async () => {
  expect(await until(/with errors/, "status")).toContainEqual(
    expect.stringMatching(/^Flows {2,}running, 1 node with errors$/),
  );
});

test("status shows what the runtime process uses, and the disk", async () => {
  const lines = await until(/^Process /m, "status");
  expect(lines).toContainEqual(
    expect.stringMatching(
      /^Process {2,}heap [1-9]\d* of [1-9]\d+ MiB, RSS [1-9]\d* MiB, CPU \d+ %, event loop delay \d+ ms$/,
    ),
  );
  expect(lines).toContainEqual(expect.stringMatching(/^Disk {2,}\d+\.\d of \d+\.\d GiB free$/));
});

test("status shows what this user may read, also without a login", async () => {
  const adminAuth = { users: [user("ada", "*")], default: { permissions: "settings.read" } };
  await using other = await startService({ config: { ...withoutRuntime, adminAuth } });
  const { stdout, stderr } = await flowgate("status", "--server", other.url);
  expect(stderr).toBe("");
  expect(stdout).toMatch(/^Flows {2,}disabled$/m);
});

test("status --nodes lists the tabs and nodes with what they do", async () => {
  const lines = await until(/it failed/, "status", "--nodes", "--full");
  expect(linesOf(lines, "TAB")).toEqual([
    "TAB  NODES  FAILING  ERRORS  WARNINGS  MESSAGES  LAST MESSAGE",
    "TAB  NODE  TYPE  STATUS  ERR  WARN  MSGS  LAST",
  ]);
  expect(linesOf(lines, "it failed")).toEqual([expect.stringMatching(/^\/fail function {2}[:\d]{8} {2}it failed/)]);
  expect(linesOf(lines, "tab of /fail")).toContainEqual(
    expect.stringMatching(/^tab tab of \/fail {2}\/fail function {2}function {2}1 {2}0 {2}1 {2}[:\d]{8}$/),
  );
  expect(linesOf(lines, "sensor")).toEqual(["Sensors  sensor  function  [red ring] lost  0  0  0"]);
  expect(linesOf(lines, "warner")).toEqual([
    expect.stringMatching(/^Sensors {2}warner {2}function {2}0 {2}1 {2}0$/),
    expect.stringMatching(/^warner {2}[:\d]{8} {2}careful/),
  ]);
  // Also those that have done nothing.
  expect(linesOf(lines, "Sensors")[0]).toMatch(/^Sensors {2}7 {2}0 {2}0 {2}1 {2}\d+/);
});

test("selects failing nodes, and those of a tab", async () => {
  const failing = await until(/it failed/, "status", "--failing");
  expect(linesOf(failing, "sensor")).toEqual([]);
  const ofTab = await until(/sensor/, "status", "--tab", "Sensors");
  expect(linesOf(ofTab, "it failed")).toEqual([]);
  await until(/^No node has such a state\.$/m, "status", "--tab", "Sensors", "--failing");
});

test("prints all of it for programs", async () => {
  await until(/it failed/, "status", "--nodes");
  const { stdout } = await flowgate("status", "--failing", "-o", "json");
  expect(JSON.parse(stdout)).toMatchObject({
    settings: { runtime: { state: "running" } },
    revision: { active: true },
    runtime: { failingNodes: 1 },
    nodes: { nodes: [{ nodeId: "/fail function", errors: 1, lastError: { level: "error" } }] },
  });
});

test("debug shows the messages of a debug node, by its name", async () => {
  await using debug = startCli(["debug", "-f", "readings", "--tab", "Sensors"], env);
  const shown = await debug.until(/\n/);
  expect(shown.split("\n")[0]).toMatch(
    /^\S+ \S+ {2}debug {7}readings \(debug\) · Sensors {2}msg\.payload \(string\[9\]\): a reading$/,
  );
  expect(await debug.end("SIGINT")).toMatchObject({ code: 130, stderr: "" });
});

test("events has the statuses of nodes", async () => {
  await using events = startCli(["events", "--kinds", "node_status", "--node", "sensor"], env);
  expect(await events.until(/\n/)).toMatch(/ {2}status {6}sensor \(function\) · Sensors {2}\[red ring\] lost\n/);
});
