import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { DeploymentType, FlowNode } from "@flowgate/flows";
import { type OpenedRuntime, credentials, revision, runtimeUnderTest } from "./builders.ts";
import { configProbe, installProbe, probe, tab } from "./flow-builders.ts";

const base: FlowNode[] = [
  tab("T1"),
  probe("a", "T1", { wires: [["b"]] }),
  probe("b", "T1", { wires: [["c"]] }),
  probe("c", "T1"),
  configProbe("C1", "T1"),
  probe("d", "T1", { config: "C1", wires: [["d2"]] }),
  probe("d2", "T1"),
  probe("e", "T1"),
  tab("T2"),
  configProbe("G"),
  probe("g", "T2", { config: "G" }),
  { id: "SF", type: "subflow", name: "SF", in: [{ wires: [{ id: "s1" }] }], out: [{ wires: [{ id: "s2", port: 0 }] }] },
  probe("s1", "SF", { wires: [["s2"]] }),
  probe("s2", "SF"),
  { id: "si", type: "subflow:SF", z: "T2", x: 1, y: 1, wires: [["q"]] },
  probe("q", "T2"),
  tab("T3"),
  { id: "gr", type: "group", z: "T3", nodes: ["m"], style: { label: true } },
  probe("m", "T3", { g: "gr" }),
];
const baseCredentials = credentials({ b: { secret: "1" }, e: { secret: "1" } });

const all = "a b c C1 d d2 e G g s1 s2 q m";
const ofT1 = "a b c C1 d d2 e";

type Row = {
  readonly change: string;
  readonly to: readonly FlowNode[];
  readonly secrets?: typeof baseCredentials;
  readonly nodes: Effect;
  readonly flows: Effect;
};
type Effect = { readonly starts: string; readonly stops: string };

const nothing: Effect = { starts: "", stops: "" };
const restart = (names: string): Effect => ({ starts: names, stops: names });
const starts = (names: string): Effect => ({ starts: names, stops: "" });
const stops = (names: string): Effect => ({ starts: "", stops: names });

function change(id: string, properties: Partial<FlowNode>): FlowNode[] {
  return base.map((node) => (node.id === id ? ({ ...node, ...properties } as FlowNode) : node));
}

const without = (id: string) => base.filter((node) => node.id !== id && node.z !== id);

const rows: Row[] = [
  { change: "none", to: base, nodes: nothing, flows: nothing },
  { change: "a node's position", to: change("b", { x: 10, y: 20 }), nodes: nothing, flows: nothing },
  { change: "a tab's label and info", to: change("T1", { label: "L", info: "I" }), nodes: nothing, flows: nothing },
  { change: "the order of nodes", to: base.toReversed(), nodes: nothing, flows: nothing },
  { change: "a group's style", to: change("gr", { style: { label: false } }), nodes: nothing, flows: nothing },
  { change: "a property of b", to: change("b", { topic: "t" }), nodes: restart("b"), flows: restart("a b c") },
  {
    change: "the credentials of b",
    to: base,
    secrets: credentials({ b: { secret: "2" }, e: { secret: "1" } }),
    nodes: restart("b"),
    flows: restart("a b c"),
  },
  {
    change: "the credentials of b removed",
    to: base,
    secrets: credentials({ e: { secret: "1" } }),
    nodes: restart("b"),
    flows: restart("a b c"),
  },
  { change: "a wired to c", to: change("a", { wires: [["c"]] }), nodes: nothing, flows: restart("a b c") },
  {
    change: "the environment of T1",
    to: change("T1", { env: [{ name: "X", value: "1", type: "str" }] }),
    nodes: restart(ofT1),
    flows: restart(ofT1),
  },
  { change: "T1 disabled", to: change("T1", { disabled: true }), nodes: stops(ofT1), flows: stops(ofT1) },
  { change: "T1 removed", to: without("T1"), nodes: stops(ofT1), flows: stops(ofT1) },
  { change: "config node C1", to: change("C1", { topic: "t" }), nodes: restart("C1 d"), flows: restart("C1 d d2") },
  { change: "config node G", to: change("G", { topic: "t" }), nodes: restart("G g"), flows: restart("G g") },
  {
    change: "a node inside the subflow",
    to: change("s1", { topic: "t" }),
    nodes: restart("s1 s2"),
    flows: restart("s1 s2 q"),
  },
  {
    change: "the subflow's definition",
    to: change("SF", { env: [{ name: "X", value: "1", type: "str" }] }),
    nodes: restart("s1 s2"),
    flows: restart("s1 s2 q"),
  },
  {
    change: "a node added that is wired to c",
    to: [...base, probe("n", "T1", { wires: [["c"]] })],
    nodes: starts("n"),
    flows: { starts: "n a b c", stops: "a b c" },
  },
  { change: "b removed", to: without("b"), nodes: stops("b"), flows: { starts: "a c", stops: "a b c" } },
];

describe("a deployment starts and stops", () => {
  let runtime: OpenedRuntime;
  let seq = 0;
  beforeAll(async () => {
    // The counts are those of one process.
    runtime = await runtimeUnderTest({ freshProcess: "never" }, installProbe);
  });
  afterAll(() => runtime[Symbol.asyncDispose]());

  async function deploy(flows: readonly FlowNode[], type: DeploymentType, secrets = baseCredentials): Promise<void> {
    seq += 1;
    await runtime.apply(revision(seq, flows, secrets), type);
    expect(runtime.status()).toMatchObject({ state: "running", message: undefined });
  }

  async function counts(): Promise<{ starts: Record<string, number>; stops: Record<string, number> }> {
    return JSON.parse(await runtime.get("/probe"));
  }

  async function effectOf(row: Pick<Row, "to" | "secrets">, type: DeploymentType): Promise<Effect> {
    await deploy(base, "full");
    const before = await counts();
    await deploy(row.to, type, row.secrets);
    const after = await counts();
    const increased = (of: "starts" | "stops") =>
      Object.keys(after[of])
        .filter((name) => after[of][name] !== before[of][name])
        .map((name) => name.replace(/^the /, ""))
        .toSorted()
        .join(" ");
    return { starts: increased("starts"), stops: increased("stops") };
  }

  const sorted = ({ starts, stops }: Effect): Effect => ({ starts: sort(starts), stops: sort(stops) });
  const sort = (names: string) => names.split(" ").toSorted().join(" ");

  for (const row of rows) {
    test(`nodes: ${row.change}`, async () => {
      expect(await effectOf(row, "nodes")).toEqual(sorted(row.nodes));
    });
    test(`flows: ${row.change}`, async () => {
      expect(await effectOf(row, "flows")).toEqual(sorted(row.flows));
    });
  }

  test.for(["full", "reload"] as const)("%s: all nodes, without any change", async (type) => {
    expect(await effectOf({ to: base }, type)).toEqual(sorted(restart(all)));
  });
});
