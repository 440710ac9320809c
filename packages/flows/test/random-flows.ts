// Random configurations and changes of them, for tests of the diff, the plan and the merge. All of them pass `parseFlows`.
import type { JsonObject } from "@bufbuild/protobuf";
import fc from "fast-check";
import type { Configuration, FlowNode } from "../src/configuration.ts";

/** A configuration by the choices that were made for it. Its nodes have fixed ids, so that several configurations share them. */
export type Sketch = { readonly containers: readonly ContainerSketch[]; readonly nodes: readonly NodeSketch[] };

type ContainerSketch = {
  readonly isPresent: boolean;
  readonly isDisabled: boolean;
  readonly env: number;
  readonly label: number;
  readonly rank: number;
  readonly credential: number;
};

type NodeSketch = {
  readonly kind: (typeof kinds)[number];
  readonly isPresent: boolean;
  readonly isDisabled: boolean;
  readonly container: number;
  readonly topic: number;
  readonly x: number;
  readonly wires: readonly number[];
  readonly config: number;
  readonly group: number;
  readonly env: number;
  readonly subflow: number;
  readonly credential: number;
  readonly rank: number;
};

const kinds = [
  "probe",
  "probe",
  "probe",
  "probe",
  "config",
  "config",
  "instance",
  "group",
  "group",
  "link in",
  "link out",
  "link call",
  "junction",
  "catch",
  "global-config",
] as const;

const containerIds = ["T1", "T2", "T3", "S1", "S2", "S3"];
const nodeCount = 18;

const container = fc.record<ContainerSketch>({
  isPresent: fc.nat(9).map((n) => n > 0),
  isDisabled: fc.nat(7).map((n) => n === 7),
  env: fc.nat(2),
  label: fc.nat(8),
  rank: fc.nat(9),
  credential: fc.nat(3),
});

const nodeSketch = fc.record<NodeSketch>({
  kind: fc.constantFrom(...kinds),
  isPresent: fc.nat(5).map((n) => n > 0),
  isDisabled: fc.nat(9).map((n) => n === 9),
  container: fc.nat(containerIds.length + 1),
  topic: fc.nat(6),
  x: fc.nat(3),
  wires: fc.array(fc.nat(nodeCount), { maxLength: 2 }),
  config: fc.nat(nodeCount + 4),
  group: fc.nat(nodeCount + 4),
  env: fc.nat(3),
  subflow: fc.nat(2),
  credential: fc.nat(4),
  rank: fc.nat(9),
});

export const sketch: fc.Arbitrary<Sketch> = fc.record({
  containers: fc.array(container, { minLength: containerIds.length, maxLength: containerIds.length }),
  nodes: fc.array(nodeSketch, { minLength: nodeCount, maxLength: nodeCount }),
});

type Edit =
  | { readonly of: "node"; readonly index: number; readonly to: Partial<NodeSketch> }
  | { readonly of: "container"; readonly index: number; readonly to: Partial<ContainerSketch> };

/** One to three changes, most of them of one aspect of one node. */
export const edits: fc.Arbitrary<readonly Edit[]> = fc.array(
  fc.oneof(
    { weight: 5, arbitrary: partialEdit("node", nodeCount, nodeSketch) },
    {
      weight: 1,
      arbitrary: fc.record({ of: fc.constant("node" as const), index: fc.nat(nodeCount - 1), to: nodeSketch }),
    },
    { weight: 2, arbitrary: partialEdit("container", containerIds.length, container) },
  ) as fc.Arbitrary<Edit>,
  { minLength: 1, maxLength: 3 },
);

function partialEdit<T extends object>(of: Edit["of"], count: number, full: fc.Arbitrary<T>): fc.Arbitrary<unknown> {
  return fc.record({ index: fc.nat(count - 1), full, key: fc.nat(77) }).map(({ index, full, key }) => {
    const keys = Object.keys(full) as (keyof T)[];
    const name = keys[key % keys.length] as keyof T;
    return { of, index, to: { [name]: full[name] } };
  });
}

export function applyEdits({ containers, nodes }: Sketch, edits: readonly Edit[]): Sketch {
  const edited = { containers: [...containers], nodes: [...nodes] };
  for (const { of, index, to } of edits) {
    if (of === "node") {
      edited.nodes[index] = { ...(edited.nodes[index] as NodeSketch), ...to };
    } else {
      edited.containers[index] = { ...(edited.containers[index] as ContainerSketch), ...to };
    }
  }
  return edited;
}

/** The part of every credential's value that no output may contain. */
export const canary = "CANARY";

/** Choices that would be invalid, such as a group in another container, are dropped. */
export function build({ containers, nodes }: Sketch): Configuration {
  const present = containers.map(({ isPresent }) => isPresent);
  const placed = nodes.map((node, index) => place(node, index, present)).filter((node) => node !== undefined);
  const groups = new Map(placed.filter(({ kind }) => kind === "group").map((group) => [group.id, group]));
  const flows = [
    ...containers.flatMap((each, index) => (each.isPresent ? [buildContainer(each, index, placed)] : [])),
    ...placed.map((node) => buildNode(node, placed, groups)),
  ];
  return {
    flows: flows.toSorted((one, other) => one.rank - other.rank).map(({ node }) => node),
    credentials: new Map(flows.flatMap(({ node, credential }) => credentialsOf(node, credential))),
  };
}

type Placed = NodeSketch & { readonly id: string; readonly z: string; readonly index: number };

function place(node: NodeSketch, index: number, present: readonly boolean[]): Placed | undefined {
  const isGlobal = node.kind === "global-config" || node.container > containerIds.length;
  // Without a container, other nodes than configuration nodes never run. The tab of some nodes does not exist.
  const z = isGlobal ? "" : present[node.container] === true ? (containerIds[node.container] as string) : "ghost";
  return node.isPresent ? { ...node, id: `n${index}`, z, index } : undefined;
}

type Built = { readonly node: FlowNode; readonly rank: number; readonly credential: number };

function buildContainer(sketch: ContainerSketch, index: number, placed: readonly Placed[]): Built {
  const id = containerIds[index] as string;
  const { rank, credential } = sketch;
  const env = envOf(sketch.env);
  if (id.startsWith("T")) {
    const disabled = sketch.isDisabled ? { disabled: true } : {};
    return { node: { id, type: "tab", label: `tab ${id} ${sketch.label}`, ...disabled, ...env }, rank, credential };
  }
  const inner = placed.filter(({ z, kind }) => z === id && kind === "probe").map((node) => node.id);
  const ports = (to: string | undefined, port: object): JsonObject[] =>
    to === undefined ? [] : [{ x: sketch.label, y: 0, wires: [{ id: to, ...port }] }];
  // Some inputs lead to a node that does not exist, and some to an output.
  const [input, output] = [sketch.label === 8 ? "gone" : inner[0], sketch.label === 7 ? id : inner.at(-1)];
  const node = {
    id,
    type: "subflow",
    name: `subflow ${id}`,
    in: ports(input, {}),
    out: ports(output, { port: 0 }),
    ...(sketch.label === 6 && {
      status: { x: 0, y: 0, wires: ports(output, { port: 0 }).flatMap(({ wires }) => wires ?? []) },
    }),
    ...env,
  };
  return { node, rank, credential };
}

function buildNode(sketch: Placed, placed: readonly Placed[], groups: ReadonlyMap<string, Placed>): Built {
  const { id, kind, z, topic, rank, credential } = sketch;
  const group = groupOf(sketch, groups);
  const common: FlowNode = {
    id,
    type: kind,
    ...(z !== "" && { z }),
    name: `the ${id}`,
    ...(sketch.isDisabled && { d: true }),
    ...(group !== undefined && { g: group }),
  };
  const node = { ...common, ...propertiesOf(sketch, placed, groups), ...(topic > 0 && { topic: topicOf(sketch) }) };
  return { node: node, rank, credential };
}

/** Some are the id of a node, or a name that every JavaScript object has. */
function topicOf({ topic, config }: Placed): string {
  return topic === 5 ? `n${config}` : topic === 6 ? "constructor" : `topic ${topic}`;
}

function propertiesOf(sketch: Placed, placed: readonly Placed[], groups: ReadonlyMap<string, Placed>): JsonObject {
  const { id, kind, x } = sketch;
  const neighbours = placed.filter(({ z }) => z === sketch.z);
  const ids = (nodes: readonly Placed[], indices: readonly number[]): string[] =>
    nodes.filter(({ index }) => indices.includes(index)).map((node) => node.id);
  const position = { x: 10 * x, y: 10 };
  const wires = [
    ids(
      neighbours.filter((node) => node.kind !== "group" && node.kind !== "config"),
      sketch.wires,
    ),
  ];
  const config = configOf(sketch, placed);
  switch (kind) {
    case "config":
      return { type: "probe-config", ...config };
    case "global-config":
      return envOf(sketch.env);
    case "group": {
      const members = neighbours.filter((node) => groupOf(node, groups) === id).map((node) => node.id);
      return { ...position, w: 10 * x, h: 10, nodes: members, ...envOf(sketch.env) };
    }
    case "instance": {
      const subflow = containerIds[3 + sketch.subflow] as string;
      return isNestable(sketch, subflow)
        ? { type: `subflow:${subflow}`, ...position, wires, ...envOf(sketch.env) }
        : { type: "probe", ...position, wires, ...config };
    }
    case "link in":
    case "link out":
    case "link call": {
      const other = kind === "link in" ? "link out" : "link in";
      const links = ids(
        placed.filter((node) => node.kind === other),
        [...sketch.wires, sketch.config],
      );
      return {
        ...position,
        links,
        ...(kind === "link call" && { linkType: "static" }),
        wires: kind === "link out" ? [] : wires,
      };
    }
    case "catch": {
      const scope = ids(neighbours, [sketch.config]);
      return { ...position, scope: scope.length === 0 ? null : scope, wires };
    }
    case "junction":
      return { ...position, wires };
    case "probe":
      return { ...position, wires, ...config };
  }
}

/** A node refers to a configuration node that is global or in the same container. Few references form a cycle. */
function configOf(sketch: Placed, placed: readonly Placed[]): JsonObject {
  const config = placed.find(
    ({ kind, z, index }) =>
      kind === "config" &&
      index === sketch.config &&
      (z === "" || z === sketch.z) &&
      (sketch.kind !== "config" || index < sketch.index || sketch.topic === 4),
  );
  return config === undefined ? {} : { config: config.id };
}

/** A group contains nodes of its own container, and groups with a greater number. */
function groupOf(sketch: Placed, groups: ReadonlyMap<string, Placed>): string | undefined {
  const group = sketch.kind === "config" ? undefined : groups.get(`n${sketch.group}`);
  const canContain = group?.z === sketch.z && (sketch.kind !== "group" || group.index < sketch.index);
  return canContain ? group?.id : undefined;
}

/** A subflow contains instances of subflows with a greater number. */
function isNestable({ z }: Placed, subflow: string): boolean {
  return !z.startsWith("S") || subflow > z;
}

function envOf(choice: number): JsonObject {
  return choice === 0 ? {} : { env: [{ name: "LEVEL", value: `level ${choice}`, type: "str" }] };
}

function credentialsOf({ id, type }: FlowNode, choice: number): [string, Map<string, string>][] {
  const hasCredentials = type.startsWith("probe") && choice > 1;
  return hasCredentials
    ? [
        [
          id,
          new Map([
            ["secret", `${canary} ${choice}`],
            [`name${choice % 2}`, canary],
          ]),
        ],
      ]
    : [];
}
