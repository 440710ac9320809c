import { create, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import {
  DeploymentOutcome,
  GetRuntimeResponseSchema,
  GetSettingsResponseSchema,
  ListNodeStatusesResponseSchema,
  RuntimeState,
} from "@flowgate/client";
import { expect, test } from "vitest";
import { type Alert, byUrgency, findAlerts } from "../../../src/pages/overview/alerts.ts";

type Init<Schema extends DescMessage> = Exclude<MessageInitShape<Schema>, { readonly $typeName: string }>;
type RuntimeInit = Init<typeof GetRuntimeResponseSchema>;
type FlowInit = NonNullable<Init<typeof ListNodeStatusesResponseSchema>["flows"]>[number];
type SettingsInit = Init<typeof GetSettingsResponseSchema>;

const healthy: RuntimeInit = {
  runtime: { state: RuntimeState.RUNNING },
  rev: "abc",
  outcome: DeploymentOutcome.RUNNING,
  started: true,
};

function alertsOf(
  runtime: RuntimeInit,
  {
    settings,
    flows = [],
    ...others
  }: Partial<{
    settings: SettingsInit;
    flows: readonly FlowInit[];
    openProposals: number;
    lostReplicas: readonly string[];
    isLive: boolean;
  }> = {},
): Alert[] {
  return findAlerts({
    runtime: create(GetRuntimeResponseSchema, { ...healthy, ...runtime }),
    settings: settings && create(GetSettingsResponseSchema, settings),
    flows: create(ListNodeStatusesResponseSchema, { flows: [...flows] }).flows.toSorted(byUrgency),
    openProposals: 0,
    lostReplicas: [],
    isLive: true,
    ...others,
  });
}

test("there is nothing to say about flows that run", () => {
  expect(alertsOf({})).toEqual([]);
  const unknown = { runtime: undefined, settings: undefined, flows: [] };
  expect(findAlerts({ ...unknown, openProposals: 0, lostReplicas: [], isLive: true })).toEqual([]);
});

const gib = 1024 ** 3;

test.each<[string, RuntimeInit, string[]]>([
  ["stopped flows", { started: false, stoppedBy: "ada", runtime: { state: RuntimeState.STOPPED } }, ["stopped warn"]],
  ["safe mode", { runtime: { state: RuntimeState.SAFE, message: "out of memory" } }, ["safe bad"]],
  [
    "missing types, and not that the deployment has failed because of them",
    { missingTypes: ["mqtt in"], outcome: DeploymentOutcome.FAILED, runtime: { state: RuntimeState.FAILED } },
    ["types bad"],
  ],
  ["missing modules", { runtime: { state: RuntimeState.FAILED, message: "missing modules: lodash" } }, ["modules bad"]],
  ["a process that has ended", { runtime: { state: RuntimeState.RESTARTING } }, ["restarting bad"]],
  ["a failed deployment", { outcome: DeploymentOutcome.CRASHED }, ["failed bad"]],
  ["a disk with little space", { disk: { freeBytes: 0.9 * gib, totalBytes: 10 * gib } }, ["disk warn"]],
  ["a large disk with a small part of it free", { disk: { freeBytes: 4 * gib, totalBytes: 100 * gib } }, ["disk warn"]],
  ["a full disk", { disk: { freeBytes: 0, totalBytes: 10 * gib } }, ["disk bad"]],
  ["a disk with enough space", { disk: { freeBytes: 2 * gib, totalBytes: 10 * gib } }, []],
  ["a heap at its limit", { runtimeProcess: { heapBytes: 95, heapLimitBytes: 100 } }, ["heap runtime warn"]],
  ["a heap whose limit is not known", { serviceProcess: { heapBytes: 95 } }, []],
])("%s", (_, runtime, expected) => {
  expect(alertsOf(runtime).map(({ key, tone }) => `${key} ${tone}`)).toEqual(expected);
});

test("says who has stopped the flows, and what safe mode means", () => {
  expect(alertsOf({ started: false, stoppedBy: "ada" })[0]?.detail).toMatch(/^By ada\. They remain stopped/);
  expect(alertsOf({ started: false })[0]?.detail).toMatch(/^By someone who was not signed in\./);
  expect(alertsOf({ runtime: { state: RuntimeState.SAFE, message: "out of memory" } })[0]).toMatchObject({
    detail: "Their process has ended too often (out of memory). A deployment, an undo or a restart starts them again.",
    link: { to: "/history/abc" },
  });
});

test("nodes that fail, with the tab of the last error", () => {
  const at = (seconds: number) => ({ lastErrorTime: { seconds: BigInt(seconds) } });
  const [orders, bills] = [
    { flowId: "o", flowLabel: "Orders", failingNodes: 2, errors: 9, ...at(20) },
    { flowId: "b/1", flowLabel: "", failingNodes: 1, errors: 1, ...at(30) },
  ];
  const healthy: FlowInit = { flowId: "h", flowLabel: "Healthy", nodes: 3 };
  expect(alertsOf({}, { flows: [healthy] })).toEqual([]);
  expect(alertsOf({}, { flows: [healthy, orders, bills] })).toEqual([
    {
      key: "nodes",
      tone: "bad",
      title: "3 nodes fail",
      detail: "Errors since the nodes were started, on b/1 and one other tab.",
      link: { to: "/flows/b~2F1", label: "See the flow" },
    },
  ]);
  expect(alertsOf({}, { flows: [{ ...bills, flowId: "" }] })).toMatchObject([
    { title: "A node fails", link: { to: "/logs?level=error" } },
  ]);
});

test("replicas that are lost, of another version, or whose flows fail; the most severe first", () => {
  const replica = { version: "1", state: RuntimeState.RUNNING };
  const settings = {
    version: "1",
    replicas: [
      { ...replica, name: "a", self: true, state: RuntimeState.FAILED },
      { ...replica, name: "b", version: "2" },
      { ...replica, name: "c", state: RuntimeState.SAFE, message: "it crashed" },
    ],
  };
  const alerts = alertsOf({}, { settings, lostReplicas: ["d"], openProposals: 2, isLive: false });
  expect(alerts.map(({ key }) => key)).toEqual(["lost d", "replica c", "live", "version b", "proposals"]);
  expect(alerts.find(({ key }) => key === "lost d")?.replica).toBe("d");
});
