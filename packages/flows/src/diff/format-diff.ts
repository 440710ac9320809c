import type { JsonValue } from "../json.ts";
import { formatPath } from "@flowgate/gateway/json-path";
import { Budget, sizeOf } from "../budget.ts";
import type { FlowNode } from "../configuration.ts";
import { nameOf, subflowOf } from "../nodes.ts";
import type { ContainerDiff, CredentialNames, FlowsDiff, NodeDiff, PropertyChange } from "./differences.ts";
import { createLineComparer, escapeControls, formatChangedValue, formatName } from "./format-value.ts";

/** The nodes of the base and the target of a diff, which provide the names of nodes that did not change. */
export type DiffSides = { readonly base: readonly FlowNode[]; readonly target: readonly FlowNode[] };

/** Formats a diff for people: plain text with a section for each container. Throws `limit_exceeded` if it exceeds the budget. */
export function formatDiff(diff: FlowsDiff, { base, target }: DiffSides, budget: Budget = new Budget()): string {
  if (diff.containers.length === 0) {
    return "No changes.\n";
  }
  const nodes = new Map([...base, ...target].map((node) => [node.id, node]));
  // Any number of wires can refer to one node.
  const references = new Map<string, string>();
  const refer = (id: string): string => {
    const node = nodes.get(id);
    const reference =
      references.get(id) ??
      (node === undefined ? `(${escapeControls(id)})` : formatNode({ id, type: node.type, name: nameOf(node) }));
    references.set(id, reference);
    budget.addOutput(sizeOf(reference));
    return reference;
  };
  const context: Context = { refer, compareLines: createLineComparer(budget), budget };
  const instances = Map.groupBy(target, (node) => subflowOf(node) ?? "");
  const sections = diff.containers.map((container) =>
    [
      formatHeader(container, instances.get(container.id)?.length ?? 0),
      ...container.nodes.flatMap((node) => formatNodeDiff(node, node.id === container.id, context)),
    ].join("\n"),
  );
  return `${[summarize(diff), ...sections].join("\n\n")}\n`;
}

type Refer = (id: string) => string;

type Context = {
  readonly refer: Refer;
  readonly compareLines: ReturnType<typeof createLineComparer>;
  readonly budget: Budget;
};

function summarize({ containers }: FlowsDiff): string {
  const nodes = containers.flatMap((container) => container.nodes);
  const count = (change: NodeDiff["change"]): number => nodes.filter((node) => node.change === change).length;
  const moved = nodes.filter(({ aspects }) => aspects.length === 1 && aspects[0] === "position").length;
  const only = moved === 0 ? "" : ` (${moved} only moved)`;
  return `${count("added")} added, ${count("removed")} removed, ${count("changed")} changed${only}`;
}

function formatHeader({ kind, id, name, nodes }: ContainerDiff, instances: number): string {
  if (kind === "global") {
    return "global configuration nodes";
  }
  const change = nodes.find((node) => node.id === id)?.change;
  const uses = kind === "subflow" ? `, ${instances} ${instances === 1 ? "instance" : "instances"}` : "";
  return `${kind} ${name === undefined ? "" : `${formatName(name)} `}(${escapeControls(id)}${uses})${change === undefined ? "" : `: ${change}`}`;
}

const symbols: Readonly<Record<NodeDiff["change"], string>> = { added: "+", removed: "-", changed: "~" };

/** The container's own changes are below its header, without a line for the node itself. */
function formatNodeDiff(node: NodeDiff, isContainer: boolean, context: Context): string[] {
  const notes = [
    ...(node.aspects.includes("position") ? ["moved"] : []),
    ...(node.aspects.includes("order") ? ["reordered"] : []),
  ].join(", ");
  const line = `  ${symbols[node.change]} ${formatNode(node)}${notes === "" ? "" : `: ${notes}`}`;
  const lines = isContainer && notes === "" ? [] : [line];
  const details =
    node.change === "changed" ? node.properties.flatMap((each) => formatProperty(node, each, context)) : [];
  const all = [...details, ...formatCredentials(node.credentials)];
  context.budget.addOutput([...lines, ...all].reduce((bytes, each) => bytes + sizeOf(each), 0));
  return [...lines, ...all.map((detail) => `      ${detail}`)];
}

function formatNode({ id, type, name }: Pick<NodeDiff, "id" | "type" | "name">): string {
  return `${escapeControls(type)} ${name === undefined ? "" : `${formatName(name)} `}(${escapeControls(id)})`;
}

function formatProperty(
  node: NodeDiff,
  { path, before, after }: PropertyChange,
  { refer, compareLines }: Context,
): string[] {
  const [key] = path;
  const isPosition =
    ["x", "y"].includes(String(path.at(-1))) || (node.type === "group" && (key === "w" || key === "h"));
  if (isPosition && node.aspects.includes("position")) {
    return [];
  }
  if (key === "wires") {
    return formatWires(path, before, after, refer);
  }
  if (key === "z" || key === "g") {
    return [
      `${key === "z" ? "container" : "group"}: ${formatReference(before, refer)} -> ${formatReference(after, refer)}`,
    ];
  }
  const [first, ...more] = formatChangedValue(before, after, compareLines);
  return [`${escapeControls(formatPath(path))}: ${first}`, ...more.map((line) => `  ${line}`)];
}

function formatReference(id: JsonValue | undefined, refer: Refer): string {
  return typeof id === "string" && id !== "" ? refer(id) : "(none)";
}

function formatCredentials({ added, removed, changed }: CredentialNames): string[] {
  const parts = [
    ...added.map((name) => `+ ${escapeControls(name)}`),
    ...removed.map((name) => `- ${escapeControls(name)}`),
    ...changed.map((name) => `~ ${escapeControls(name)}`),
  ];
  return parts.length === 0 ? [] : [`credentials: ${parts.join(", ")}`];
}

/** Formats the change of all wires, or of one output's (`wires[0]`). Outputs are counted from 1, as in the editor. */
function formatWires(
  path: PropertyChange["path"],
  before: JsonValue | undefined,
  after: JsonValue | undefined,
  refer: (id: string) => string,
): string[] {
  const [, output] = path;
  if (typeof output === "number") {
    return formatOutput(output, idsOf(before), idsOf(after), refer);
  }
  const [outputsBefore, outputsAfter] = [listOf(before), listOf(after)];
  return Array.from({ length: Math.max(outputsBefore.length, outputsAfter.length) }, (_, index) =>
    formatOutput(index, idsOf(outputsBefore[index]), idsOf(outputsAfter[index]), refer),
  ).flat();
}

function formatOutput(
  index: number,
  before: readonly string[],
  after: readonly string[],
  refer: (id: string) => string,
): string[] {
  const [idsBefore, idsAfter] = [new Set(before), new Set(after)];
  const parts = [
    ...after.filter((id) => !idsBefore.has(id)).map((id) => `+ ${refer(id)}`),
    ...before.filter((id) => !idsAfter.has(id)).map((id) => `- ${refer(id)}`),
  ];
  return [`output ${index + 1}: ${parts.length === 0 ? "the same nodes" : parts.join(", ")}`];
}

function idsOf(value: JsonValue | undefined): string[] {
  return listOf(value).filter((id) => typeof id === "string");
}

function listOf(value: JsonValue | undefined): JsonValue[] {
  return Array.isArray(value) ? value : [];
}
