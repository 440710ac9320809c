import { create } from "@bufbuild/protobuf";
import { DeploymentOutcome, type Event, EventSchema, LogLevel } from "@flowgate/client";
import { expect, test } from "vitest";
import { addEvent, type Deployments, noDeployments } from "../../src/components/deployment-events.ts";

const deployed = (rev: string, parent: string, outcome: DeploymentOutcome, failure = "") =>
  create(EventSchema, { rev, kind: { case: "deployment", value: { parent, outcome, failure } } });

const failed = (
  rev: string,
  nodeId: string,
  message: string,
  { level = LogLevel.ERROR, count = 1 }: { readonly level?: LogLevel; readonly count?: number } = {},
) =>
  create(EventSchema, {
    rev,
    nodeId,
    nodeType: "function",
    nodeName: "scale",
    flowId: "t",
    kind: { case: "nodeError", value: { level, message, count } },
  });

const after = (...events: readonly Event[]): Deployments => events.reduce(addEvent, noDeployments);

test("a revision has its last outcome", () => {
  const { revisions } = after(
    deployed("r2", "r1", DeploymentOutcome.PENDING),
    deployed("r3", "r2", DeploymentOutcome.PENDING),
    deployed("r2", "r1", DeploymentOutcome.FAILED, "no such type"),
  );
  expect(revisions).toEqual([
    { rev: "r2", parent: "r1", outcome: DeploymentOutcome.FAILED, failure: "no such type" },
    { rev: "r3", parent: "r2", outcome: DeploymentOutcome.PENDING, failure: "" },
  ]);
});

test("a failing node has its last error, and how often it has failed in this revision", () => {
  const { failing } = after(
    failed("r2", "n", "first", { count: 4 }),
    failed("r2", "m", "other"),
    failed("r3", "n", "of another revision"),
    failed("r2", "n", "last"),
  );
  expect(failing.filter(({ rev }) => rev === "r2")).toEqual([
    { rev: "r2", id: "m", type: "function", name: "scale", flow: "t", message: "other", count: 1 },
    { rev: "r2", id: "n", type: "function", name: "scale", flow: "t", message: "last", count: 5 },
  ]);
});

test("warnings are no failures", () => {
  expect(after(failed("r2", "n", "hm", { level: LogLevel.WARN }))).toEqual(noDeployments);
});

test("no more is kept than anyone would read", () => {
  const events = Array.from({ length: 150 }, (_, index) => failed("r2", `n${index}`, "x"));
  expect(after(...events).failing).toHaveLength(100);
});
