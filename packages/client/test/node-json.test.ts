import { fromBinary, type JsonValue, toBinary } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { NodeJsonError, nodeFromJson, NodeSchema, nodeToJson } from "../src/index.ts";

test.each<[what: string, node: JsonValue]>([
  ["a tab", { id: "t", type: "tab", label: "Heating", disabled: false }],
  ["a node", { id: "n", type: "inject", z: "t", x: 1.5, y: -2, wires: [["m"], []], props: [{ p: "payload" }] }],
  ["values of all kinds", { id: "n", type: "x", a: null, b: true, c: "", d: [[]], e: { f: {} }, g: 9007199254740991 }],
  ["a label that is no text", { id: "n", type: "ui_chart", label: { text: "x" } }],
  ["keys that objects inherit", { id: "n", type: "x", constructor: 1, toString: "y" }],
])("%s is the same after it was sent", (_what, json) => {
  const node = fromBinary(NodeSchema, toBinary(NodeSchema, nodeFromJson(json)));
  expect(nodeToJson(node)).toEqual(json);
});

test("credentials are read, and never written", () => {
  const node = nodeFromJson({ id: "n", type: "x", credentials: { user: "ada", password: "" } });
  expect(node.credentials?.values).toEqual({ user: "ada", password: "" });
  expect(nodeToJson(node)).toEqual({ id: "n", type: "x" });
  const config = nodeFromJson({
    id: "g",
    type: "global-config",
    credentials: { map: { key: "s3cret", has_key: true } },
  });
  expect(config.credentials).toMatchObject({ values: {}, map: { key: "s3cret", has_key: true } });
});

test("a node without credentials has none, so that stored ones are kept", () => {
  expect(nodeFromJson({ id: "n", type: "x" }).credentials).toBeUndefined();
});

test.each<[node: JsonValue, path: string, message: string]>([
  [[], "", "must be an object"],
  [null, "", "must be an object"],
  [{ type: "x" }, "id", "is missing: must be a text"],
  [{ id: 1, type: "x" }, "id", "must be a text"],
  [{ id: "n", type: null }, "type", "must be a text"],
  [{ id: "n", type: "x", credentials: null }, "credentials", "must be an object with texts by name"],
  [{ id: "n", type: "x", credentials: { user: 1 } }, "credentials.user", "must be a text"],
])("%j is no node", (node, path, message) => {
  const read = () => nodeFromJson(node);
  expect(read).toThrow(NodeJsonError);
  expect(read).toThrow(expect.objectContaining({ path: path === "" ? [] : path.split("."), message }));
});
