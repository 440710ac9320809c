import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  DeploymentOutcome,
  type Event,
  EventSchema,
  RevisionCause,
  RevisionSchema,
  RuntimeState,
} from "@flowgate/client";
import { expect, test } from "vitest";
import { toEntries, toSpans } from "../../../src/pages/overview/timeline.ts";

function change(ms: number, state: RuntimeState, { rev = "r", message = "", runtime = "" } = {}): Event {
  return create(EventSchema, {
    id: String(ms),
    time: timestampFromMs(ms),
    rev,
    runtime,
    kind: { case: "runtimeState", value: { state, message } },
  });
}

const { STARTING, RUNNING, FAILED, RESTARTING, SAFE, STOPPED } = RuntimeState;

test("revisions and changes of state are in one list, the newest first", () => {
  const revisions = [
    create(RevisionSchema, {
      rev: "new",
      createTime: timestampFromMs(20),
      cause: RevisionCause.AUTOMATIC_UNDO,
      user: "ci",
      tokenName: "pipeline",
      message: "undo",
      outcome: DeploymentOutcome.RUNNING,
    }),
    create(RevisionSchema, { rev: "old", createTime: timestampFromMs(5), outcome: DeploymentOutcome.FAILED }),
  ];
  expect(toEntries(revisions, [change(10, FAILED, { message: "no port" })])).toMatchObject([
    {
      text: "Undid a failed deployment automatically by ci (token pipeline)",
      detail: "undo",
      word: "running",
      tone: "good",
    },
    { text: "The flows have failed", detail: "no port", tone: "bad", kind: "state" },
    { text: "Deployed", word: "failed", kind: "deployment" },
  ]);
});

test.each<[string, Event[], string[]]>([
  [
    "a deployment, which is shown itself",
    [change(1, RUNNING), change(2, STARTING, { rev: "s" }), change(3, RUNNING, { rev: "s" })],
    ["The flows run"],
  ],
  [
    "a restart",
    [change(1, RUNNING), change(2, STARTING), change(3, RUNNING)],
    ["The flows were restarted", "The flows run"],
  ],
  [
    "a crash",
    [change(1, RUNNING), change(2, RESTARTING), change(3, STARTING), change(4, RUNNING)],
    ["The flows run", "The runtime process has ended", "The flows run"],
  ],
  [
    "safe mode",
    [change(1, RESTARTING), change(2, SAFE)],
    ["Safe mode: the flows are not started any more", "The runtime process has ended"],
  ],
  [
    "two replicas, each with changes of its own",
    [change(1, RUNNING, { runtime: "a" }), change(2, STOPPED, { runtime: "b" }), change(3, RUNNING, { runtime: "a" })],
    ["The flows were stopped on b", "The flows run on a"],
  ],
  ["a state of a newer service", [change(1, 99 as RuntimeState)], ["The state has changed"]],
])("changes of state: %s", (_, events, expected) => {
  expect(toEntries([], events.toReversed()).map(({ text }) => text)).toEqual(expected);
});

test("a state lasts until the next one, and the last one until now", () => {
  const spans = toSpans([change(30, RUNNING), change(10, STOPPED), change(20, RUNNING, { runtime: "b" })], 100);
  expect(spans.get("")).toEqual([
    { fromMs: 10, toMs: 30, tone: "warn", word: "stopped" },
    { fromMs: 30, toMs: 100, tone: "good", word: "running" },
  ]);
  expect(spans.get("b")).toMatchObject([{ fromMs: 20, toMs: 100 }]);
});
