import { cp } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { FlowNode } from "@flowgate/flows";
import { credentials, revision, runtimeUnderTest } from "./builders.ts";
import { endpoint, functionNode, onTab, tab } from "./flow-builders.ts";

test("flows find the values of the configuration in the global context, and nodes their settings", async () => {
  await using runtime = await runtimeUnderTest({
    globalContext: { prices: { apple: [1.5] }, off: false },
    nodeSettings: { globalFunctionTimeout: 0.2, functionExternalModules: false, apiMaxLength: "1kb" },
  });
  const [tabNode, input, code, output] = endpoint(
    "values",
    `msg.payload = [global.get("prices.apple[0]"), global.get("off"), global.keys()]`,
  );
  const post = { ...input, id: "post", url: "/post", method: "post" } as FlowNode;
  const flows = [
    ...[tabNode, input, code, output, post].filter((node) => node !== undefined),
    tab("T"),
    { ...onTab("start"), type: "inject", once: true, onceDelay: 0.1, props: [], wires: [["endless"]] },
    functionNode("endless", { z: "T", func: "for (;;) {}" }),
    { ...functionNode("modules", { z: "T", func: "return msg;" }), libs: [{ var: "os", module: "os" }] },
  ];
  await runtime.apply(revision(1, flows), "full");
  expect(JSON.parse(await runtime.get("/values"))).toEqual([1.5, false, ["prices", "off"]]);
  expect(await runtime.untilLogged(/timed out after 200ms/)).toMatchObject({ nodeId: "endless" });
  await runtime.untilLogged(/Function node not allowed to load external modules/);
  const url = `http://127.0.0.1:${runtime.status().httpPort}/post`;
  const headers = { "content-type": "application/json" };
  const statusOf = async (length: number) =>
    (await fetch(url, { method: "POST", headers, body: JSON.stringify("x".repeat(length).split("")) })).status;
  expect([await statusOf(10), await statusOf(2_000)]).toEqual([200, 500]);
});

test("the port and host that nodes find can be set, as those of a proxy", async () => {
  await using runtime = await runtimeUnderTest(
    { nodeSettings: { uiPort: 443, uiHost: "flows.example" } },
    async (modulesDir) => {
      const source = new URL("../../../test/fixtures/e2e/node-red-contrib-say", import.meta.url);
      await cp(source, join(modulesDir, "node_modules", "node-red-contrib-say"), { recursive: true });
    },
  );
  const [tabNode, input, code, output] = endpoint("/port", "return msg;");
  const say = { id: "say", type: "say", z: tabNode?.id, x: 1, y: 1, wires: [[output?.id]] };
  const flows = [tabNode, input, { ...code, wires: [["say"]] }, say, output] as FlowNode[];
  await runtime.apply(revision(1, flows), "full");
  expect(JSON.parse(await runtime.get("/port"))).toEqual({ uiPort: 443, uiHost: "flows.example" });
});

test("flows read the environment variables of their subflow, group and tab, and secret ones", async () => {
  const variable = (name: string, value: string, type = "str") => ({ name, value, type });
  const read = `msg.payload = ["A", "B", "C", "D", "SECRET", "NUMBER", "NR_FLOW_NAME"].map((name) => env.get(name)).join()`;
  const [tabNode, input, , output] = endpoint("env", "");
  const flows = [
    {
      ...tabNode,
      env: [variable("A", "tab"), variable("B", "tab"), variable("C", "tab"), variable("SECRET", "", "cred")],
    },
    { ...input, wires: [["instance"]] },
    {
      id: "group",
      type: "group",
      z: tabNode?.id,
      nodes: ["instance"],
      env: [variable("B", "group"), variable("C", "group")],
    },
    {
      id: "instance",
      type: "subflow:S",
      z: tabNode?.id,
      g: "group",
      x: 1,
      y: 1,
      env: [variable("C", "instance"), variable("NUMBER", "5", "num")],
      wires: [[output?.id]],
    },
    {
      id: "S",
      type: "subflow",
      name: "S",
      in: [{ x: 1, y: 1, wires: [{ id: "inner" }] }],
      out: [{ x: 1, y: 1, wires: [{ id: "inner", port: 0 }] }],
      env: [variable("C", "subflow"), variable("D", "subflow")],
    },
    functionNode("inner", { z: "S", func: `${read}; return msg;` }),
    output,
  ] as FlowNode[];
  await using runtime = await runtimeUnderTest();
  await runtime.apply(revision(1, flows, credentials({ [tabNode?.id ?? ""]: { SECRET: "s3cret" } })), "full");
  expect(await runtime.get("/env")).toBe("tab,group,instance,subflow,s3cret,5,env");
});
