import { afterAll, beforeAll, expect, test } from "vitest";
import type { FlowNode } from "@flowgate/flows";
import { type OpenedRuntime, revision, runtimeUnderTest } from "./builders.ts";
import { configProbe, endpoint, functionNode, installProbe, onTab, tab } from "./flow-builders.ts";

let runtime: OpenedRuntime;
let seq = 0;
beforeAll(async () => {
  runtime = await runtimeUnderTest({ freshProcess: "never" }, installProbe);
});
afterAll(() => runtime[Symbol.asyncDispose]());

/** Deploys flows beside others. */
async function deploy(flows: readonly FlowNode[], type: "full" | "nodes" = "full"): Promise<void> {
  seq += 1;
  await runtime.apply(revision(seq, [...flows, ...endpoint("/hello", `msg.payload = "hello ${seq}"`)]), type);
}

const variable = (type: string, value: string | number) => ({ name: "A", type, value });

const ofTabs: readonly [message: string, flows: readonly FlowNode[]][] = [
  [
    `tab "tab T" (T) can't be started: env[1] ("A"): Expected ")" before end of expression`,
    [tab("T", { env: [variable("str", "a"), variable("jsonata", "(")] })],
  ],
  [
    `tab "tab T" (T) can't be started: group "mine" (g): env[0] ("A"): key.startsWith is not a function`,
    [tab("T"), { id: "g", type: "group", z: "T", name: "mine", nodes: [], env: [variable("env", 1)] }],
  ],
  [
    `what all tabs share can't be started: global-config G: env[0] ("A"): key.startsWith is not a function`,
    [{ id: "G", type: "global-config", env: [variable("env", 1)] }],
  ],
  [
    `tab "tab T" (T) can't be started: complete c: scope: must be an array of node ids`,
    [tab("T"), { ...onTab("c"), type: "complete", scope: "x", wires: [] }],
  ],
  [
    `tab "tab T" (T) can't be started: probe-config "the C" (C): config: refers to itself`,
    [tab("T"), { ...configProbe("C", "T"), config: "C" }],
  ],
  [
    `tab "tab T" (T) can't be started: probe-config "the C" (C): config: refers to probe-config "the D" (D), which is not started or refers to it`,
    [tab("T"), { ...configProbe("C", "T"), config: "D" }, { ...configProbe("D", "T"), config: "C" }],
  ],
];

test.each(ofTabs)("%s, and the other tabs run", async (message, flows) => {
  await deploy(flows);
  expect(runtime.status()).toMatchObject({ state: "running", message });
  expect(await runtime.get("/hello")).toBe(`hello ${seq}`);
});

const instanceOf = (subflow: Partial<FlowNode>, properties: Partial<FlowNode> = {}): FlowNode[] => [
  tab("T"),
  { id: "s", type: "subflow", name: "sub", in: [], out: [], ...subflow },
  { ...onTab("i"), type: "subflow:s", name: "mine", wires: [], ...properties },
];

const ofInstances: readonly [message: string, flows: readonly FlowNode[]][] = [
  [
    `subflow:s "mine" (i): env[0] ("A"): Expected ")" before end of expression`,
    instanceOf({}, { env: [variable("jsonata", "(")] }),
  ],
  [`subflow "sub" (s): env[0] ("A"): key.startsWith is not a function`, instanceOf({ env: [variable("env", 1)] })],
  [
    `subflow "sub" (s): in[0].wires[1].id: there is no node "gone" in the subflow`,
    [...instanceOf({ in: [{ wires: [{ id: "f" }, { id: "gone" }] }] }), functionNode("f", { z: "s" })],
  ],
  [
    `subflow "sub" (s): out[0].wires[0].port: the subflow has no input 1`,
    instanceOf({ in: [{ wires: [] }], out: [{ wires: [{ id: "s", port: 1 }] }] }),
  ],
  [
    `probe-config "the C" (C): config: refers to itself`,
    [...instanceOf({}), { ...configProbe("C", "s"), config: "C" }],
  ],
];

test.each(ofInstances)("an instance of a subflow can't be started: %s", async (message, flows) => {
  const start = runtime.entries.length;
  await deploy(flows);
  const errors = runtime.entries.slice(start).filter(({ level }) => level === "error");
  expect(errors).toMatchObject([
    { message: `the instance of the subflow can't be started: ${message}`, nodeId: "i", flowId: "T" },
  ]);
  expect(await runtime.get("/hello")).toBe(`hello ${seq}`);
});

test("names the node whose list of modules can't be read, with which nothing is started", async () => {
  await deploy([tab("T"), { ...functionNode("f", { z: "T" }), libs: [null] }]);
  expect(runtime.status()).toMatchObject({ state: "failed", message: "function f: libs[0]: must be a module" });
  await deploy([]);
  expect(await runtime.get("/hello")).toBe(`hello ${seq}`);
});

test("names a node that loses its coordinates while it runs", async () => {
  const { x: _x, y: _y, ...node } = functionNode("f", { z: "T", wires: [["other"]] });
  await deploy([tab("T"), functionNode("f", { z: "T" })]);
  await deploy([tab("T"), node], "nodes");
  expect(runtime.status().message).toBe(
    `tab "tab T" (T) can't be started: function f: x, y: a node that ran before can't lose them: deploy the flows again`,
  );
  await deploy([tab("T"), node], "nodes");
  expect(runtime.status()).toMatchObject({ state: "running", message: undefined });
});
