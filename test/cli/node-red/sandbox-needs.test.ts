import { expect, test } from "vitest";
import { parse } from "yaml";
import { findSandboxNeeds } from "../../../packages/cli/src/node-red/sandbox-needs.ts";
import type { FlowNode } from "@flowgate/flows";
import { runtime } from "../../../src/options/runtime.ts";

const tab = { id: "t", type: "tab", label: "Kitchen" };
const inTab = { z: "t", x: 1, y: 1, wires: [] };

function allowOf(...flows: readonly FlowNode[]): unknown {
  const { configuration } = findSandboxNeeds([tab, ...flows]);
  return configuration === undefined
    ? undefined
    : (parse(configuration) as { runtime: { allow: unknown } }).runtime.allow;
}

test("flows of nodes that only pass messages need nothing", () => {
  const flows = [
    tab,
    { id: "n", type: "debug", ...inTab },
    { id: "f", type: "function", ...inTab, func: "return msg;" },
  ];
  expect(findSandboxNeeds(flows)).toMatchObject({ configuration: undefined, notes: [] });
});

test("each permission is a valid option, with the nodes that need it as comments", () => {
  const files = Array.from({ length: 5 }, (_, at) => ({
    id: `w${at}`,
    type: "file",
    ...inTab,
    filename: "/var/log/a.log",
  }));
  const { configuration, notes } = findSandboxNeeds([
    tab,
    { id: "e", type: "exec", ...inTab, name: "ping\nrm" },
    ...files,
    { id: "tls", type: "tls-config", name: "mesh", cert: " /etc/tls/cert.pem ", key: "/etc/tls/key.pem", ca: "" },
    { id: "f", type: "function", ...inTab, func: `const url = env.get("API_URL");` },
    { id: "t2", type: "function", ...inTab, libs: [{ var: "threads", module: "node:worker_threads" }] },
  ]);
  expect(configuration).toBe(`runtime:
  allow:
    childProcess: true # "exec" "ping\\nrm"
    fileSystemWrite:
      - /var/log/a.log # "file" "w0", "file" "w1", "file" "w2" and 2 more
    fileSystemRead:
      - /etc/tls/cert.pem # "tls-config" "mesh"
      - /etc/tls/key.pem # "tls-config" "mesh"
    env:
      - API_URL # "function" "f"
    worker: true # "function" "t2"
`);
  expect(notes).toEqual([]);
  runtime.parse((parse(configuration ?? "") as { runtime: unknown }).runtime);
});

test.each<[where: string, node: object, names: readonly string[] | undefined]>([
  [
    "a function",
    { type: "function", func: "env.get('A') + env.get(`B`)", finalize: `env.get( "C" )` },
    ["A", "B", "C"],
  ],
  ["JSONata", { type: "change", rules: [{ t: "set", to: '$env("A") & "x"', tot: "jsonata" }] }, ["A"]],
  ["a template", { type: "template", template: "{{env.A}} {{{ env.B }}} {{payload}}" }, ["A", "B"]],
  ["a property", { type: "mqtt in", topic: "${A}" }, ["A"]],
  ["nested properties", { type: "x", list: [{ deep: ["${A}"] }] }, ["A"]],
  ["part of a property, which is not replaced", { type: "mqtt in", topic: "a/${A}" }, undefined],
  [
    "a typed value",
    { type: "inject", payload: "A", payloadType: "env", props: [{ p: "x", v: "B", vt: "env" }] },
    ["A", "B"],
  ],
  ["a typed value with text", { type: "file", filename: "${A}/${B}.log", filenameType: "env" }, ["A", "B"]],
  ["a variable of the node itself", { type: "x", env: [{ name: "N", type: "env", value: "A" }], a: "${N}" }, ["A"]],
  ["the parent", { type: "function", func: 'env.get("$parent.A")' }, ["A"]],
  ["the runtime's own variables", { type: "function", func: 'env.get("NR_NODE_ID")' }, undefined],
  ["variables that are always passed", { type: "function", func: 'env.get("PATH") + env.get("HOME")' }, undefined],
])("finds variables that are read in %s", (_, node, names) => {
  const found = allowOf({ id: "n", ...inTab, ...node } as unknown as FlowNode) as
    | { env?: readonly string[] }
    | undefined;
  expect(found?.env).toEqual(names);
});

test("variables that flows define need no permission where they are defined", () => {
  const env = (name: string) => [{ name, type: "str", value: "1" }];
  const read = (id: string, where: object, name: string) => ({
    id,
    type: "function",
    ...where,
    func: `env.get("${name}")`,
  });
  const flows = [
    { id: "t1", type: "tab", env: env("TAB") },
    { id: "g", type: "group", z: "t1", env: env("GROUP") },
    { id: "inner", type: "group", z: "t1", g: "g" },
    { id: "s", type: "subflow", env: env("SUBFLOW") },
    { id: "i", type: "subflow:s", z: "t1", env: env("INSTANCE") },
    { id: "c", type: "global-config", env: env("GLOBAL") },
    read("n1", { z: "t1", g: "inner" }, "TAB"),
    read("n2", { z: "t1", g: "inner" }, "GROUP"),
    read("n3", { z: "s" }, "SUBFLOW"),
    read("n4", { z: "s" }, "INSTANCE"),
    read("n5", { z: "s" }, "TAB"),
    read("n6", { z: "t" }, "GLOBAL"),
  ];
  expect(allowOf(...flows)).toBeUndefined();
  expect(allowOf(...flows, read("n7", { z: "t" }, "TAB"), read("n8", { z: "t1" }, "GROUP"))).toEqual({
    env: ["TAB", "GROUP"],
  });
});

test("what is known only when flows run is noted", () => {
  const { configuration, notes } = findSandboxNeeds([
    tab,
    { id: "a", type: "file", ...inTab, filename: "name", filenameType: "msg" },
    { id: "b", type: "file in", ...inTab, filename: "" },
    { id: "c", type: "watch", ...inTab, name: "inbox", files: "in, /srv/in" },
  ]);
  expect(configuration).toContain("- /srv/in");
  expect(notes).toEqual([
    '"file" "a": its file name is known only when it runs: permit its folder with runtime.allow.fileSystemWrite',
    '"file in" "b": its file name is known only when it runs: permit its folder with runtime.allow.fileSystemRead',
    '"watch" "inbox": the file "in" is looked for in runtime.dir: copy it there',
  ]);
});

test("disabled nodes and tabs need nothing", () => {
  const exec = { type: "exec", x: 1, y: 1, wires: [] };
  const off = { id: "off", type: "tab", disabled: true, env: [{ name: "X", type: "env", value: "Y" }] };
  expect(allowOf({ ...exec, id: "e1", z: "t", d: true }, off, { ...exec, id: "e2", z: "off" })).toBeUndefined();
});

test("groups in a circle, deep properties and many nodes are read in linear time", () => {
  let deep: unknown = "${DEEP}";
  for (let depth = 0; depth < 100_000; depth++) {
    deep = [deep];
  }
  const circle = ["g1", "g2"].map((id) => ({ id, type: "group", z: "t", g: id === "g1" ? "g2" : "g1" }));
  const nodes = Array.from({ length: 100_000 }, (_, at) => ({ id: `n${at}`, type: "exec", z: "t", g: "g1" }));
  expect(allowOf(...circle, ...nodes, { id: "d", type: "x", z: "t", g: "g1", deep } as FlowNode)).toEqual({
    childProcess: true,
    env: ["DEEP"],
  });
});
