import { expect, test } from "vitest";
import type { CredentialSets, FlowNode } from "../../src/configuration.ts";
import { diffFlows } from "../../src/diff/diff-flows.ts";
import { formatDiff } from "../../src/diff/format-diff.ts";
import { sets } from "../builders.ts";

function format(
  base: readonly FlowNode[],
  target: readonly FlowNode[],
  secrets: [CredentialSets, CredentialSets],
): string {
  const [before, after] = secrets;
  const diff = diffFlows({ flows: base, credentials: before }, { flows: target, credentials: after });
  return formatDiff(diff, { base, target });
}

const none: [CredentialSets, CredentialSets] = [sets({}), sets({})];

const base: FlowNode[] = [
  { id: "T", type: "tab", label: "Orders" },
  { id: "a", type: "inject", z: "T", x: 1, y: 1, name: "start", wires: [["f"], ["gone"]] },
  { id: "f", type: "function", z: "T", x: 2, y: 1, name: "check", func: "let a = 1;\nreturn msg;\n", wires: [["c"]] },
  { id: "c", type: "debug", z: "T", x: 3, y: 1, wires: [] },
  { id: "U", type: "tab", label: "Returns" },
  { id: "S", type: "subflow", name: "Retry" },
  { id: "i", type: "subflow:S", z: "T", x: 4, y: 1, wires: [] },
  { id: "broker", type: "mqtt-broker", name: "main", port: 1883 },
];

test("formats a section for each container", () => {
  const target: FlowNode[] = [
    { id: "T", type: "tab", label: "Orders" },
    { id: "a", type: "inject", z: "T", x: 9, y: 1, name: "start", wires: [["f", "n"], []] },
    { id: "n", type: "debug", z: "T", x: 3, y: 2, wires: [] },
    { id: "f", type: "function", z: "T", x: 2, y: 1, name: "check", func: "let a = 2;\nreturn msg;\n", wires: [["c"]] },
    { id: "c", type: "debug", z: "U", x: 3, y: 1, wires: [] },
    { id: "U", type: "tab", label: "Returns", disabled: true },
    { id: "S", type: "subflow", name: "Retry", category: "tools" },
    { id: "broker", type: "mqtt-broker", name: "main", port: 8883 },
  ];
  const secrets: typeof none = [
    sets({ broker: { user: "hidden", password: "hidden" } }),
    sets({ broker: { password: "secret", token: "secret" } }),
  ];
  expect(format(base, target, secrets)).toBe(`1 added, 1 removed, 6 changed

tab "Orders" (T)
  ~ inject "start" (a): moved
      output 1: + debug (n)
      output 2: - (gone)
  + debug (n)
  ~ function "check" (f)
      func: from line 1
        - let a = 1;
        + let a = 2;
  - subflow:S (i)

tab "Returns" (U): changed
      disabled: (none) -> true
  ~ debug (c)
      container: tab "Orders" (T) -> tab "Returns" (U)

subflow "Retry" (S, 0 instances): changed
      category: (none) -> "tools"

global configuration nodes
  ~ mqtt-broker "main" (broker)
      port: 1883 -> 8883
      credentials: + token, - user, ~ password
`);
});

test("counts nodes that only moved", () => {
  const target = base.map((node) => (node.id === "c" ? { ...node, x: 4 } : node));
  expect(format(base, target, none)).toBe(`0 added, 0 removed, 1 changed (1 only moved)

tab "Orders" (T)
  ~ debug (c): moved
`);
});

test("says that nothing changed", () => {
  expect(format(base, base, none)).toBe("No changes.\n");
});

test("shows each change of a text with several lines, also if other lines are between them", () => {
  const [before, after] = [
    "const a = 1;\nif (a) {\n\tb();\n}\nreturn msg;\n",
    "const a = 2;\nif (a) {\n\tb();\n\tc();\n}\nreturn msg;\n",
  ];
  const withCode = (func: string): FlowNode[] => base.map((node) => (node.id === "f" ? { ...node, func } : node));
  expect(format(withCode(before), withCode(after), none)).toContain(`
      func: from line 1
        - const a = 1;
        + const a = 2;
        from line 4
        +   c();
`);
});

test("shows a text that differs in very many lines as one change", () => {
  const withCode = (prefix: string): FlowNode[] =>
    base.map((node) =>
      node.id === "f"
        ? { ...node, func: ["// head", ...Array.from({ length: 200 }, (_, n) => prefix + n)].join("\n") }
        : node,
    );
  const text = format(withCode("a"), withCode("b"), none);
  expect(text).toContain("func: from line 2\n        - a0\n");
  expect(text).toContain("        + b198\n        + b199\n");
  expect(text.match(/from line/g)).toHaveLength(1);
});

test("shows long values whole, shortens names, and escapes control characters", () => {
  const target: FlowNode[] = base.map((node) =>
    node.id === "c" ? { ...node, name: "\u{1b}[31m\u{202e}", text: "x".repeat(200), code: "line\n".repeat(40) } : node,
  );
  const text = format(base, target, none);
  expect(text).toContain(String.raw`~ debug "\u001b[31m\u{202e}" (c)`);
  expect(text).toContain(`text: (none) -> "${"x".repeat(200)}"\n`);
  expect(text).toContain(`code: (none) -> "${String.raw`line\n`.repeat(40)}"\n`);

  const named = base.map((node) => (node.id === "c" ? { ...node, name: "n".repeat(200) } : node));
  expect(format(base, named, none)).toContain(
    `  ~ debug "${"n".repeat(79)}... (202 characters) (c)\n      name: (none) -> "${"n".repeat(200)}"\n`,
  );
});
