import { describe, expect, test } from "vitest";
import { Budget } from "../../src/budget.ts";
import type { Configuration, FlowNode } from "../../src/configuration.ts";
import { type DeploymentPlan, planDeployment } from "../../src/plan/plan.ts";
import { failure, sets } from "../builders.ts";

const tab: FlowNode = { id: "T", type: "tab" };

function on(z: string, id: string, type: string, properties: Partial<FlowNode> = {}): FlowNode {
  return { id, type, z, x: 1, y: 1, wires: [], ...properties };
}

/** Plans the first deployment. */
function plan(flows: readonly FlowNode[], budget?: Budget): DeploymentPlan {
  return replan([], flows, budget);
}

function replan(before: readonly FlowNode[], after: readonly FlowNode[], budget?: Budget): DeploymentPlan {
  const [current, next] = [before, after].map((flows): Configuration => ({ flows, credentials: sets({}) }));
  const runtime = { knownTypes: undefined, isRunning: true };
  return planDeployment(current as Configuration, next as Configuration, "nodes", runtime, budget);
}

/** Each subflow has `width` instances of the next one; `instances` of the first are on a tab. */
function nested(depth: number, { width = 1, instances = 1 } = {}): FlowNode[] {
  const subflows = Array.from({ length: depth }, (_, level) => [
    { id: `S${level}`, type: "subflow", in: [], out: [] },
    ...(level === depth - 1 ? [] : repeat(width, (n) => on(`S${level}`, `n${level}.${n}`, `subflow:S${level + 1}`))),
  ]).flat();
  return [tab, ...subflows, ...repeat(instances, (n) => on("T", `i${n}`, "subflow:S0"))];
}

function repeat(count: number, create: (index: number) => FlowNode): FlowNode[] {
  return Array.from({ length: count }, (_, index) => create(index));
}

describe("a plan is limited", () => {
  test.for<[what: string, flows: readonly FlowNode[], error: string]>([
    [
      "300 nested subflows, of which a tab has 300 instances",
      nested(300, { instances: 300 }),
      "limit_exceeded flows: the 90000 nodes that would run are in 13455000 subflow instances, counted for each node, and a plan lists 1000000: nest fewer subflows",
    ],
    [
      "60,000 nested subflows",
      nested(60_000),
      "limit_exceeded flows: the 60000 nodes that would run are in 1799970000 subflow instances, counted for each node, and a plan lists 1000000: nest fewer subflows",
    ],
    [
      "more nodes than a number can count",
      nested(2_000, { width: 2 }),
      "limit_exceeded flows: more than 100000 nodes would run, those in instances of subflows included (infinitely many): too many to plan; use fewer instances, or nest fewer subflows",
    ],
    [
      "a subflow that contains itself by a property",
      [...nested(1), on("S0", "again", "debug", { subflow: "S0" })],
      "limit_exceeded flows: more than 100000 nodes would run, those in instances of subflows included (infinitely many): too many to plan; use fewer instances, or nest fewer subflows",
    ],
    [
      "200 nodes with names of 1 KB in 400 instances",
      [...nested(1, { instances: 400 }), ...repeat(200, (n) => on("S0", `n${n}`, "debug", { name: "x".repeat(1024) }))],
      "limit_exceeded flows: the result is larger than 67108864 bytes: change fewer nodes at once, or shorten their ids, names and values",
    ],
  ])("%s", ([, flows, error]) => {
    expect(failure(() => plan(flows))).toBe(error);
  });

  test("nodes, the instances around them, output and time, at the limit and beyond it", () => {
    // On the tab two instances, with one node each: 4 nodes, of which two are in one instance.
    const flows = [...nested(1, { instances: 2 }), on("S0", "n", "debug")];
    expect(plan(flows, new Budget({ maxNodes: 4, maxInstanceIds: 2 })).nodes).toHaveLength(4);
    expect(failure(() => plan(flows, new Budget({ maxNodes: 3 })))).toContain("more than 3 nodes would run");
    expect(failure(() => plan(flows, new Budget({ maxInstanceIds: 1 })))).toContain("are in 2 subflow instances");
    expect(failure(() => plan(flows, new Budget({ maxOutputBytes: 10 })))).toContain("is larger than 10 bytes");
    expect(failure(() => plan(flows, new Budget({ maxMs: -1 })))).toContain("takes longer than -1 ms");
  });
});

// An algorithm whose time is quadratic would not end before the timeout.
describe("a plan takes time that is linear in the flows", { timeout: 150_000 }, () => {
  const ids = (nodes: DeploymentPlan["nodes"], action: string): number =>
    nodes.filter((each) => each.action === action).length;

  test("the name of a module that consists of @", () => {
    const library = (module: string): FlowNode[] => [tab, on("T", "f", "function", { libs: [{ module }] })];
    expect(plan(library("@".repeat(3_000_000))).modules).toEqual([]);
    expect(plan(library(`${"@/".repeat(1_000_000)}name`)).modules).toMatchObject([{ name: "name" }]);
  });

  test("configuration nodes in a circle, with 20,000 references each, in a subflow with 2,000 instances", () => {
    const configs = repeat(3, (n) => ({
      id: `c${n}`,
      type: "config",
      z: "S0",
      ...Object.fromEntries(Array.from({ length: 20_000 }, (_, key) => [`k${key}`, `c${(n + 1) % 3}`])),
    }));
    const { nodes } = plan([...nested(1, { instances: 2_000 }), ...configs]);
    expect(nodes).toEqual([]);
  });

  test("a chain of 60,000 configuration nodes, from its beginning and from its end", () => {
    const chain = repeat(60_000, (n) => ({ id: `c${n}`, type: "config", next: `c${n + 1}` }));
    expect(plan(chain.toReversed()).nodes).toHaveLength(60_000);
    // The runtime gives up after it has visited the chain 100 times.
    expect(plan(chain).nodes.map(({ id }) => id)).toEqual(Array.from({ length: 99 }, (_, n) => `c${59_999 - n}`));
  });

  test("60,000 groups in each other", () => {
    const groups = (env: string): FlowNode[] => [
      tab,
      on("T", "n", "debug", { g: "g0" }),
      ...repeat(60_000, (n) => ({
        id: `g${n}`,
        type: "group",
        z: "T",
        g: `g${n + 1}`,
        nodes: [n === 0 ? "n" : `g${n - 1}`],
      })),
      { id: "g60000", type: "group", z: "T", nodes: ["g59999"], env: [{ name: "LEVEL", value: env, type: "str" }] },
    ];
    expect(replan(groups("1"), groups("2")).nodes).toMatchObject([{ id: "n", action: "restart" }]);
  });

  test("30,000 nodes that are wired anew, on as many tabs", () => {
    const flows = (wires: string[][]): FlowNode[] => [
      ...repeat(30_000, (n) => ({ id: `T${n}`, type: "tab" })),
      ...repeat(30_000, (n) => on(`T${n}`, `n${n}`, "debug", { wires })),
    ];
    expect(replan(flows([]), flows([["n0"]])).nodes).toEqual([]);
  });

  test("a subflow with 20,000 wires of its ports, and 20,000 instances that are wired anew", () => {
    const port = { wires: repeat(20_000, () => ({ id: "n", port: 0 }) as never) } as never;
    const flows = (wires: string[][]): FlowNode[] => [
      tab,
      { id: "S", type: "subflow", in: [], out: [port] },
      on("S", "n", "debug", { wires: [[]] }),
      ...repeat(20_000, (n) => on("T", `i${n}`, "subflow:S", { wires })),
    ];
    expect(ids(replan([], flows([])).nodes, "start")).toBe(40_000);
    expect(replan(flows([[]]), flows([["i0"]])).nodes).toEqual([]);
  });

  test("an endpoint with a path of 1 MB in a subflow with 30,000 instances", () => {
    const endpoint = on("S0", "h", "http in", { method: "get", url: `/${"a".repeat(1_000_000)}` });
    expect(failure(() => plan([...nested(1, { instances: 30_000 }), endpoint]))).toContain("the result is larger than");
  });

  test("90,000 nodes that are replaced by others", () => {
    const configs = (prefix: string): FlowNode[] => repeat(90_000, (n) => ({ id: `${prefix}${n}`, type: "config" }));
    const { nodes } = replan(configs("a"), configs("b"));
    expect([ids(nodes, "stop"), ids(nodes, "start")]).toEqual([90_000, 90_000]);
  });
});
