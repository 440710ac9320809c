// Compares the plan with the real runtime. FLOWGATE_PLAN_RUNS and FLOWGATE_PLAN_SEED run more and other configurations.
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Configuration, DeploymentType, FlowNode } from "../../src/configuration.ts";
import { findRestarts } from "../../src/plan/plan.ts";
import type { SimulatedNode } from "../../src/plan/running-flows.ts";
import { type OpenedRuntime, revision, runtimeUnderTest } from "../../../runtime/test/builders.ts";
import { installProbe } from "../../../runtime/test/flow-builders.ts";
import { applyEdits, build, edits, sketch } from "../random-flows.ts";

const numRuns = Number(process.env["FLOWGATE_PLAN_RUNS"] ?? 110);
const seed = Number(process.env["FLOWGATE_PLAN_SEED"] ?? 1);

let runtime: OpenedRuntime;
let seq = 0;
beforeAll(async () => {
  // On a busy machine, the flows would be suspected of blocking the event loop, and be deployed to a new process.
  runtime = await runtimeUnderTest({ unresponsiveMs: 30_000, freshProcess: "never" }, installProbe);
});
afterAll(() => runtime[Symbol.asyncDispose]());

/** The paths of nodes, as the fixture records them. */
type Lifecycle = { readonly stops: readonly string[]; readonly starts: readonly string[] };

async function deploy({ flows, credentials }: Configuration, type: DeploymentType): Promise<Lifecycle> {
  seq += 1;
  await runtime.apply(revision(seq, flows, credentials), type);
  const { stops, starts } = JSON.parse(await runtime.get("/lifecycle")) as Lifecycle;
  return { stops: stops.toSorted(), starts: starts.toSorted() };
}

const empty: Configuration = { flows: [], credentials: new Map() };

/**
 * Starts all nodes. The previous deployment can prevent that: if a node with wires becomes a configuration node of the same id,
 * the runtime fails to start its tab. The flows are then deployed again to an empty runtime.
 */
async function startAll(flows: Configuration): Promise<void> {
  const wanted = planned(findRestarts, { from: empty, to: flows, type: "full" }).starts;
  let { starts } = await deploy(flows, "full");
  if (JSON.stringify(starts) !== JSON.stringify(wanted)) {
    await deploy(empty, "full");
    ({ starts } = await deploy(flows, "full"));
  }
  expect(starts).toEqual(wanted);
}

type Change = { readonly from: Configuration; readonly to: Configuration; readonly type: DeploymentType };

type Plan = typeof findRestarts;

function planned(plan: Plan, { from, to, type }: Change): Lifecycle {
  const { stops, starts } = plan(from, to, type);
  return { stops: stops.map(pathOf).toSorted(), starts: starts.map(pathOf).toSorted() };
}

function pathOf({ tab, instances, node }: SimulatedNode): string {
  return [tab, ...instances, node.id].join("/");
}

const observed: { readonly change: Change; readonly lifecycle: Lifecycle }[] = [];

const pair = fc
  .oneof(
    { weight: 5, arbitrary: fc.tuple(sketch, edits).map(([from, edits]) => [from, applyEdits(from, edits)] as const) },
    { weight: 1, arbitrary: fc.tuple(sketch, sketch) },
  )
  .map(([from, to]): readonly [Configuration, Configuration] => [build(from), build(to)]);

test.for<DeploymentType>(["nodes", "flows", "full", "reload"])(
  "the runtime stops and starts the planned nodes of random deployments: %s",
  { timeout: 1000 * numRuns },
  async (type) => {
    const pairs = fc.sample(pair, { numRuns: type === "reload" ? 5 : numRuns, seed });
    for (const [index, [from, to]] of pairs.entries()) {
      const change = { from, to, type };
      let lifecycle: Lifecycle;
      let pid: number | undefined;
      let isRenewed: boolean;
      // A fast machine deploys so often that what the runtime logs looks like a flood, and the next deployment gets a new process.
      do {
        await startAll(from);
        // An instance of a subflow could not be started.
        isRenewed = type === "reload" && runtime.status().message !== undefined;
        pid = runtime.processId();
        lifecycle = await deploy(to, type);
      } while (!isRenewed && runtime.processId() !== pid);
      if (isRenewed) {
        continue;
      }
      expect(lifecycle, `deployment ${index} with seed ${seed}`).toEqual(planned(findRestarts, change));
      observed.push({ change, lifecycle });
    }
  },
);

test.for<[fault: string, plan: Plan]>([
  [
    "a node that starts is missing",
    (...change) => {
      const { stops, starts } = findRestarts(...change);
      return { stops, starts: starts.slice(1) };
    },
  ],
  [
    "a node that stops is missing",
    (...change) => {
      const { stops, starts } = findRestarts(...change);
      return { stops: stops.slice(0, -1), starts };
    },
  ],
  ["wires are not followed", (from, to, type) => findRestarts(from, to, type === "flows" ? "nodes" : type)],
  ["wires are followed always", (from, to, type) => findRestarts(from, to, type === "nodes" ? "flows" : type)],
  [
    "credentials are not compared",
    (from, to, type) => findRestarts({ ...from, credentials: to.credentials }, to, type),
  ],
  [
    "the nodes in subflow instances are missing",
    (...change) => {
      const { stops, starts } = findRestarts(...change);
      const isOutside = ({ instances }: SimulatedNode): boolean => instances.length === 0;
      return { stops: stops.filter(isOutside), starts: starts.filter(isOutside) };
    },
  ],
  ["disabled nodes start", (from, to, type) => findRestarts(from, without(to, "d"), type)],
  ["the environment is not compared", (from, to, type) => findRestarts(without(from, "env"), without(to, "env"), type)],
  ["groups are not compared", (from, to, type) => findRestarts(without(from, "g"), without(to, "g"), type)],
])("a fault in the plan is detected: %s", ([, plan]) => {
  const detected = observed.filter(
    ({ change, lifecycle }) => JSON.stringify(planned(plan, change)) !== JSON.stringify(lifecycle),
  );
  expect(detected.length).toBeGreaterThan(0);
});

function without({ flows, credentials }: Configuration, property: string): Configuration {
  return { flows: flows.map((node) => omit(node, property)), credentials };
}

function omit(node: FlowNode, property: string): FlowNode {
  return Object.fromEntries(Object.entries(node).filter(([key]) => key !== property)) as FlowNode;
}
