import { fromBinary } from "@bufbuild/protobuf";
import { nodeToJson, SetFlowsRequestSchema } from "@flowgate/client";
import { expect, test } from "vitest";
import { type Prepared, readFlows } from "../../../src/pages/deploy/given-flows.ts";

async function sent({ fields }: Prepared) {
  return fromBinary(SetFlowsRequestSchema, new Uint8Array(await fields.arrayBuffer()));
}

const nodes = [
  { id: "t", type: "tab", label: "Heating" },
  { id: "n", type: "http request", z: "t", wires: [[]], timeout: 1.5 },
];

test("reads an array of nodes, as Node-RED exports it", async () => {
  const read = readFlows(JSON.stringify(nodes));
  expect((await sent(read)).flows.map((node) => nodeToJson(node))).toEqual(nodes);
  expect(read).toMatchObject({ rev: undefined, modules: [] });
});

test("reads an object with flows, revision, credentials and modules, as the API returns it", async () => {
  const read = readFlows(
    JSON.stringify({
      flows: nodes,
      rev: "abc",
      credentials: { $: "encrypted", n: { password: "p" } },
      modules: [{ name: "m", version: "1.0.0" }],
    }),
  );
  const { flows, credentials } = await sent(read);
  expect(flows).toHaveLength(2);
  expect(credentials).toMatchObject({ encrypted: "encrypted", nodes: { n: { values: { password: "p" } } } });
  expect(read).toMatchObject({ rev: "abc", modules: [{ name: "m", version: "1.0.0" }] });
});

test("integers are read if a double represents them", async () => {
  const { flows } = await sent(readFlows('[{"id": "n", "type": "x", "n": 9007199254740992, "s": "9007199254740993"}]'));
  expect(flows[0]?.properties).toEqual({ n: 9007199254740992, s: "9007199254740993" });
});

test.each([
  "",
  "[{]",
  "7",
  "{}",
  '{"nodes": []}',
  '{"flows": {}}',
  '{"flows": [], "more": 1}',
  '{"flows": [], "rev": 7}',
  '{"flows": [], "modules": [{"name": "m", "more": 1}]}',
  '{"flows": [], "credentials": []}',
  '{"flows": [], "credentials": {"$": 7}}',
  '{"flows": [], "credentials": {"n": {"password": 7}}}',
  "[7]",
  '[{"type": "x"}]',
  '[{"id": "n", "type": "x", "n": 9007199254740993}]',
])("leaves %s to the service to refuse", (text) => {
  expect(() => readFlows(text)).toThrow(Error);
});
