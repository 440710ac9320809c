import { describe, expect, test } from "vitest";
import { Budget } from "../../../src/flows/budget.ts";
import type { Configuration, FlowNode } from "../../../src/flows/configuration.ts";
import { type DeploymentPlan, planDeployment } from "../../../src/flows/plan/plan.ts";
import { failure, sets } from "../builders.ts";

const tab: FlowNode = { id: "T", type: "tab" };
const nothing: Configuration = { flows: [], credentials: sets({}) };

function on(z: string, id: string, type: string, properties: Partial<FlowNode> = {}): FlowNode {
  return { id, type, z, x: 1, y: 1, wires: [], ...properties };
}

/** Plans the first deployment. */
function plan(flows: readonly FlowNode[], budget?: Budget): DeploymentPlan {
  const next = { flows, credentials: sets({}) };
  return planDeployment(nothing, next, "full", { knownTypes: undefined, isRunning: true }, budget);
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
