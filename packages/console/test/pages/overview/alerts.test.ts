import { create, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import {
  ConditionKind,
  GetRuntimeResponseSchema,
  GetSettingsResponseSchema,
  HealthState,
  RuntimeState,
} from "@flowgate/client";
import { expect, test } from "vitest";
import { type Alert, findAlerts } from "../../../src/pages/overview/alerts.ts";

type Init<Schema extends DescMessage> = Exclude<MessageInitShape<Schema>, { readonly $typeName: string }>;
type RuntimeInit = Init<typeof GetRuntimeResponseSchema>;
type ConditionInit = NonNullable<Exclude<RuntimeInit["health"], undefined>["conditions"]>[number];
type SettingsInit = Init<typeof GetSettingsResponseSchema>;

const healthy: RuntimeInit = { runtime: { state: RuntimeState.RUNNING }, rev: "abc", started: true };

function withConditions(...conditions: ConditionInit[]): RuntimeInit {
  return { health: { state: HealthState.DEGRADED, conditions } };
}

function alertsOf(
  runtime: RuntimeInit,
  { settings, ...others }: Partial<{ settings: SettingsInit; openProposals: number; isLive: boolean }> = {},
): Alert[] {
  return findAlerts({
    runtime: create(GetRuntimeResponseSchema, { ...healthy, ...runtime }),
    settings: settings && create(GetSettingsResponseSchema, settings),
    openProposals: 0,
    isLive: true,
    ...others,
  });
}

test("there is nothing to say about flows that run", () => {
  expect(alertsOf({})).toEqual([]);
  expect(findAlerts({ runtime: undefined, settings: undefined, openProposals: 0, isLive: true })).toEqual([]);
});

test.each<[string, RuntimeInit, string[]]>([
  ["stopped flows", { started: false, stoppedBy: "ada", runtime: { state: RuntimeState.STOPPED } }, ["stopped warn"]],
  ["safe mode", withConditions({ kind: ConditionKind.SAFE_MODE }), ["safe bad"]],
  ["missing types", withConditions({ kind: ConditionKind.MISSING_TYPES }), ["types bad"]],
  ["missing modules", withConditions({ kind: ConditionKind.MISSING_MODULES }), ["modules bad"]],
  ["a process that has ended", withConditions({ kind: ConditionKind.RESTARTED, count: 2 }), ["restarted bad"]],
  ["flows that can't start", withConditions({ kind: ConditionKind.NOT_STARTED }), ["condition 7 bad"]],
  ["nodes that did not start", withConditions({ kind: ConditionKind.NODES_NOT_STARTED }), ["condition 2 bad"]],
  ["flows that no replica runs", withConditions({ kind: ConditionKind.NO_RUNNER }), ["runner bad"]],
  ["a replica that is lost", withConditions({ kind: ConditionKind.REPLICA_LOST, count: 1 }), ["lost bad"]],
  ["a full disk", withConditions({ kind: ConditionKind.DISK }), ["disk bad"]],
  ["a heap at its limit", { runtimeProcess: { heapBytes: 95, heapLimitBytes: 100 } }, ["heap runtime warn"]],
  ["a heap whose limit is not known", { serviceProcess: { heapBytes: 95 } }, []],
])("%s", (_, runtime, expected) => {
  expect(alertsOf(runtime).map(({ key, tone }) => `${key} ${tone}`)).toEqual(expected);
});

test("says who has stopped the flows, and what safe mode means", () => {
  expect(alertsOf({ started: false, stoppedBy: "ada" })[0]?.detail).toMatch(/^By ada\. They remain stopped/);
  expect(alertsOf({ started: false })[0]?.detail).toMatch(/^By someone who was not signed in\./);
  expect(alertsOf(withConditions({ kind: ConditionKind.SAFE_MODE, message: "out of memory" }))[0]).toMatchObject({
    detail: "Their process has ended too often (out of memory). A deployment, an undo or a restart starts them again.",
    link: { to: "/history/abc" },
  });
});

test("nodes that fail, with the tab of the last error", () => {
  const kind = ConditionKind.NODES_FAILING;
  const [orders, bills] = [
    { kind, nodeId: "1", flowId: "o", flowLabel: "Orders" },
    { kind, nodeId: "2", flowId: "b/1" },
  ];
  expect(alertsOf(withConditions(bills, orders, { ...orders, nodeId: "3" }))).toEqual([
    {
      key: "nodes",
      tone: "bad",
      title: "3 nodes fail",
      detail: "Errors within the last 10 minutes, on b/1 and one other tab.",
      link: { to: "/flows/b~2F1", label: "See the flow" },
    },
  ]);
  expect(alertsOf({ ...withConditions(bills), failingNodes: 40 })[0]?.title, "not all are listed").toBe(
    "40 nodes fail",
  );
  expect(alertsOf(withConditions({ kind, nodeId: "4" }))).toMatchObject([
    { title: "A node fails", link: { to: "/logs?level=error" } },
  ]);
});

test("replicas of another version, or whose flows fail; the most severe first", () => {
  const replica = { version: "1", state: RuntimeState.RUNNING };
  const settings = {
    version: "1",
    replicas: [
      { ...replica, name: "a", self: true, state: RuntimeState.FAILED },
      { ...replica, name: "b", version: "2" },
      { ...replica, name: "c", state: RuntimeState.SAFE, message: "it crashed" },
    ],
  };
  const alerts = alertsOf({}, { settings, openProposals: 2, isLive: false });
  expect(alerts.map(({ key }) => key)).toEqual(["replica c", "live", "version b", "proposals"]);
});
