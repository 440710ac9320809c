import { pino } from "pino";
import { expect, test } from "vitest";
import { createListeners } from "@flowgate/base/listeners";
import type { Change } from "../../src/deployments/deployment.ts";
import { Quarantine } from "../../src/deployments/quarantine.ts";
import type { Fault, RuntimeStateReason } from "@flowgate/runtime";
import type { RevisionEvent } from "../../src/store/flow-store.ts";
import { revision } from "../store/revision.ts";

const flows = [
  { id: "T", type: "tab" },
  { id: "f", type: "function", z: "T" },
  { id: "d", type: "debug", z: "T" },
  { id: "S", type: "subflow" },
  { id: "inner", type: "function", z: "S" },
  { id: "instance", type: "subflow:S", z: "T" },
  { id: "stray", type: "function", z: "missing", x: 1, y: 1 },
];

/** What is disabled after the runtime process has ended twice for this reason. */
function disabledAfter(...parameters: Parameters<typeof changesAfter>) {
  return changesAfter(...parameters).flatMap((change) => change.identity());
}

function changesAfter(
  reason: RuntimeStateReason,
  node: Fault["node"],
  isCertain = true,
  scope: "node" | "tab" = "node",
) {
  const active = revision(1, flows);
  const changes = createListeners<void>();
  const revisions = createListeners<RevisionEvent>();
  const deployed: Change[] = [];
  let fault: Fault | undefined;
  using _ = new Quarantine({
    scope,
    store: { active: () => active, onRevision: (listener) => revisions.add(listener) },
    runtime: {
      status: () => ({
        name: "none",
        version: "0",
        state: "restarting",
        httpPort: 0,
        message: undefined,
        reason,
        fault,
      }),
      onChange: (listener) => changes.add(listener),
    },
    deployer: {
      deploy(change) {
        deployed.push(change);
        return Promise.reject(new Error("not deployed"));
      },
    },
    log: pino({ level: "silent" }),
  });
  for (let ends = 0; ends < 2; ends++) {
    fault = { node, line: 1, isCertain };
    changes.notify();
  }
  return deployed;
}

test("a function node that has blocked the flows twice is disabled, or its tab", () => {
  expect(disabledAfter("blocked", { nodeId: "f", flowId: "T" })).toEqual(["f"]);
  expect(disabledAfter("blocked", { nodeId: "f", flowId: "T" }, true, "tab")).toEqual(["T"]);
  expect(disabledAfter("blocked", { nodeId: "inner", flowId: "T", subflowPath: ["instance"] })).toEqual(["inner"]);
});

test("nodes whose tab does not exist get one, which is disabled", async () => {
  const [change] = changesAfter("blocked", { nodeId: "stray", flowId: "missing" }, true, "tab");
  const content = await change?.apply(revision(1, flows));
  expect(content?.flows.nodes).toEqual([...flows, { id: "missing", type: "tab", disabled: true }]);
});

test.for<[what: string, reason: RuntimeStateReason, node: Fault["node"], isCertain?: boolean, scope?: "node" | "tab"]>([
  ["the flows have crashed", "crashed", { nodeId: "f", flowId: "T" }],
  ["the service has not missed heartbeats", "killed", { nodeId: "f", flowId: "T" }],
  ["it was the last active one", "blocked", { nodeId: "f", flowId: "T" }, false],
  ["it is in another flow", "blocked", { nodeId: "f", flowId: "other" }],
  ["it is in another flow than its tab", "blocked", { nodeId: "f", flowId: "other" }, true, "tab"],
  ["its stack can't be sampled", "blocked", { nodeId: "d", flowId: "T" }],
  ["it is not part of the active flows", "blocked", { nodeId: "gone", flowId: "T" }, true, "tab"],
])("a node is not disabled if %s", ([, reason, ...fault]) => {
  expect(disabledAfter(reason, ...fault)).toEqual([]);
});
