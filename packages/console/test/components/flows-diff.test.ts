import { create, fromJson, type JsonValue } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { type FlowsDiff, FlowsDiffSchema, NodeAspect, NodeChange, type PropertyChange } from "@flowgate/client";
import { describe, expect, test } from "vitest";
import { countChanges, takeNodes } from "../../src/components/flows-diff/counts.ts";
import { splitChange, viewProperties } from "../../src/components/flows-diff/properties.ts";

function view(path: string, before: JsonValue | undefined, after: JsonValue | undefined) {
  const change = {
    path,
    ...(before !== undefined && { before: fromJson(ValueSchema, before) }),
    ...(after !== undefined && { after: fromJson(ValueSchema, after) }),
  } as PropertyChange;
  return viewProperties({ properties: [change] });
}

describe("the view of a property", () => {
  test("has short values as JSON, so that text and numbers differ", () => {
    expect(view("qos", "1", 1)).toEqual([{ kind: "value", path: "qos", before: '"1"', after: "1" }]);
  });

  test("distinguishes null from no value", () => {
    expect(view("d", undefined, null)).toEqual([{ kind: "value", path: "d", before: undefined, after: "null" }]);
  });

  test("has the code of functions as JavaScript, as it is", () => {
    expect(view("func", "return msg;\n", "// new\nreturn msg;\n")).toEqual([
      { kind: "code", path: "func", language: "javascript", before: "return msg;\n", after: "// new\nreturn msg;\n" },
    ]);
  });

  test("has long JSON with a line for each member, and JSON within text as it is", () => {
    const long = "x".repeat(120);
    expect(view("rules", [], [{ v: long }])).toEqual([
      { kind: "code", path: "rules", language: "json", before: "[]", after: `[\n  {\n    "v": "${long}"\n  }\n]` },
    ]);
    expect(view("payload", undefined, `{"a":\n1}`)).toEqual([
      { kind: "code", path: "payload", language: "json", before: undefined, after: `{"a":\n1}` },
    ]);
    expect(view("template", "Dear {{name}},\n", "Hello {{name}},\n")).toMatchObject([{ language: "text" }]);
  });

  test("has the nodes that an output leads to, counted as in the editor", () => {
    expect(view("wires[1]", ["a", "b"], ["b", "c"])).toEqual([
      { kind: "references", path: "wires", output: 2, added: ["c"], removed: ["a"] },
    ]);
    expect(view("wires", [["a"], ["b"]], [["a"], ["c"], []])).toEqual([
      { kind: "references", path: "wires", output: 2, added: ["c"], removed: ["b"] },
      { kind: "references", path: "wires", output: 3, added: [], removed: [] },
    ]);
  });

  test("has the container and the group of a node", () => {
    expect(view("z", "tab1", "tab2")).toEqual([{ kind: "references", path: "z", added: ["tab2"], removed: ["tab1"] }]);
    expect(view("g", "group", undefined)).toMatchObject([{ added: [], removed: ["group"] }]);
  });

  test("does not take properties of other nodes for ids of nodes", () => {
    expect(view("wires", "copper", 3)).toMatchObject([{ kind: "value", before: '"copper"', after: "3" }]);
    expect(view("nodes", ["a", { b: 1 }], null)).toMatchObject([{ kind: "value" }]);
  });
});

describe("the difference of two short texts", () => {
  test.each([
    ["/orders/v1", "/orders/v2", { start: "/orders/v", before: "1", after: "2", end: "" }],
    ["aa", "aaa", { start: "aa", before: "", after: "a", end: "" }],
    ["same", "same", { start: "same", before: "", after: "", end: "" }],
    ["x😀y", "x😁y", { start: "x", before: "😀", after: "😁", end: "y" }],
  ])("%s, %s", (before, after, parts) => {
    expect(splitChange(before, after)).toEqual(parts);
  });
});

describe("the changes of a difference", () => {
  test("are counted, those that were only moved too", () => {
    expect(countChanges(diff)).toEqual({ added: 1, removed: 1, changed: 2, moved: 1 });
  });

  test("are limited across containers", () => {
    expect(takeNodes(diff, 3).map(({ id, nodes }) => [id, nodes.map((node) => node.id)])).toEqual([
      ["tab", ["a", "b"]],
      ["", ["c"]],
    ]);
    expect(takeNodes(diff, 2)).toHaveLength(1);
  });
});

const diff: FlowsDiff = create(FlowsDiffSchema, {
  containers: [
    {
      id: "tab",
      nodes: [
        { id: "a", change: NodeChange.ADDED },
        { id: "b", change: NodeChange.CHANGED, aspects: [NodeAspect.POSITION] },
      ],
    },
    {
      nodes: [
        { id: "c", change: NodeChange.CHANGED, aspects: [NodeAspect.POSITION, NodeAspect.WIRES] },
        { id: "d", change: NodeChange.REMOVED },
      ],
    },
  ],
});
