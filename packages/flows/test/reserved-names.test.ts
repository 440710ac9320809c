import type { JsonObject } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { FlowNode } from "../src/configuration.ts";
import { parseFlows, toSubmittedNodes } from "../src/parse-flows.ts";
import { type OpenedRuntime, credentials, revision, runtimeUnderTest } from "../../runtime/test/builders.ts";
import { endpoint, functionNode, installProbe, onTab, probe, tab } from "../../runtime/test/flow-builders.ts";

const members = ["constructor", "__proto__", "toString", "hasOwnProperty", "valueOf", "__defineGetter__"];

/** Each with a name where the runtime uses it as a key of a plain object. */
const uses: Readonly<Record<string, (name: string) => FlowNode>> = {
  "flows[0].id": (name) => functionNode(name, { z: "T" }),
  "flows[0].type": (name) => ({ ...onTab("n"), type: name }),
  "flows[0].z": (name) => functionNode("n", { z: name }),
  "flows[0].links[1]": (name) => ({ ...onTab("keys"), type: "link in", links: ["other", name], wires: [] }),
};

test.each(Object.entries(uses).flatMap(([path, use]) => members.map((name) => [path, name, use] as const)))(
  "rejects %s: %s",
  (path, name, use) => {
    expect(() => parseFlows(toSubmittedNodes([use(name)]))).toThrow(
      `${path}: must not be "${name}", which the flow runtime can't use as a name`,
    );
  },
);

test.each<[what: string, node: FlowNode, path: string, name: string]>([
  ["a tab", tab("constructor"), "flows[0].id", "constructor"],
  ["a configuration node", { id: "toString", type: "mqtt-broker" }, "flows[0].id", "toString"],
  ["a subflow", { id: "valueOf", type: "subflow" }, "flows[0].id", "valueOf"],
  ["a group", { id: "hasOwnProperty", type: "group" }, "flows[0].id", "hasOwnProperty"],
  ["a tab with the id of the global flow", tab("global"), "flows[0].id", "global"],
  ["an instance", { ...onTab("n"), type: "subflow:constructor" }, "flows[0].type", "subflow:constructor"],
  ["a variable", tab("T", { env: [{ name: "A" }, { name: "__proto__" }] }), "flows[0].env[1].name", "__proto__"],
  ["a variable", tab("T", { env: [{ name: "hasOwnProperty" }] }), "flows[0].env[0].name", "hasOwnProperty"],
])("rejects the name of %s", (_, node, path, name) => {
  expect(() => parseFlows(toSubmittedNodes([node]))).toThrow(
    `${path}: must not be "${name}", which the flow runtime can't use as a name`,
  );
});

let runtime: OpenedRuntime;
beforeAll(async () => {
  runtime = await runtimeUnderTest({ freshProcess: "never" }, installProbe);
});
afterAll(() => runtime[Symbol.asyncDispose]());

let seq = 0;

/** Whether the runtime starts what the service accepts, and gets the corrective deployment afterwards. */
async function runs(flows: readonly FlowNode[], secrets: Record<string, Record<string, string>>): Promise<string> {
  parseFlows(toSubmittedNodes(flows));
  for (const type of ["full", "nodes", "flows"] as const) {
    seq += 1;
    await runtime.apply(revision(seq, flows, credentials(secrets)), type);
    expect(runtime.status()).toMatchObject({ state: "running" });
  }
  return runtime.get("/env");
}

const readEnv = (name: string) => endpoint("/env", `msg.payload = String(env.get(${JSON.stringify(name)}))`);
const withProperties = (flows: readonly FlowNode[], type: string, properties: JsonObject): FlowNode[] =>
  flows.map((node) => (node.type === type ? { ...node, ...properties } : node));

test.each(["constructor", "toString", "valueOf", "__defineGetter__"])(
  "accepts what works with %s as a name: variables, credentials, properties, targets of wires and links",
  async (name) => {
    const flows = [
      ...withProperties(readEnv(name), "tab", { env: [{ name, value: "kept", type: "str" }] }),
      tab("T"),
      { ...functionNode("f", { z: "T", wires: [[name]] }), [name]: "x" },
      { ...onTab("out"), type: "link out", mode: "link", links: [name] },
      { ...onTab("call"), type: "link call", links: [name], wires: [[]] },
      probe("p", "T"),
    ];
    expect(await runs(flows, { p: { secret: "s1", [name]: "s2" } })).toBe("kept");
    expect(JSON.parse(await runtime.get("/probe"))).toMatchObject({ secrets: { "the p": "s1" } });
  },
);

test.each(["prototype", "length", "name", "null", "undefined"])("accepts %s as an id", async (name) => {
  const flows = withProperties(readEnv("A"), "tab", { env: [{ name: "A", value: "a", type: "str" }] });
  expect(await runs([...flows, tab(name), probe(`${name}2`, name), functionNode(`${name}3`, { z: name })], {})).toBe(
    "a",
  );
});
