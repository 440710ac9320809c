import { expect, test } from "vitest";
import { checkDeliveries, type Received } from "../../torture/fan-out/check-deliveries.ts";
import type { Seen } from "../e2e/watch-events.ts";

const pending = (id: string, rev: string): Seen => deployment(id, rev, "pending");
const running = (id: string, rev: string): Seen => deployment(id, rev, "running");

function deployment(id: string, rev: string, outcome: string): Seen {
  return { id, kind: "deployment", event: { id, rev, deployment: { outcome } } };
}

function dropped(id: string, kinds: Readonly<Record<string, number>>): Seen {
  const count = Object.values(kinds).reduce((sum, each) => sum + each, 0);
  return { id, kind: "dropped", event: { id, dropped: { count, kinds, reason: "slow_reader" } } };
}

const bookmark: Seen = { id: "2", kind: "bookmark", event: { id: "2", bookmark: {} } };
const all = [pending("1", "a"), running("2", "a"), pending("3", "b"), running("4", "b")];
const [first, second, third, last] = all as [Seen, Seen, Seen, Seen];

test.each<[what: string, seen: readonly Seen[], hasStopped: boolean, violations: readonly string[]]>([
  ["as all others", all, false, []],
  ["with a bookmark between them", [first, second, bookmark, third, last], false, []],
  ["with a gap", [first, third, last], false, ["tested: 1 events are missing, first the event 2 (a running); told: 0"]],
  [
    "without the last one",
    [first, second, third],
    false,
    ["tested: 1 events are missing, first the event 4 (b running); told: 0"],
  ],
  [
    "with a gap that was told, although it has read all the time",
    [first, dropped("2", { deployment: 1 }), third, last],
    false,
    ["tested: 1 events are missing, first the event 2 (a running); told: 0"],
  ],
  [
    "twice",
    [first, second, second, third, last],
    false,
    ["tested: the event 2 (a running) came again, or after a later one"],
  ],
  [
    "again after a resumption",
    [first, second, bookmark, first, second, third, last],
    false,
    ["tested: the event 1 (a pending) came again, or after a later one"],
  ],
  [
    "in another order",
    [first, third, second, last],
    false,
    ["tested: the event 2 (a running) came again, or after a later one"],
  ],
  [
    "under the ids of others",
    [pending("1", "b"), second, pending("3", "a"), last],
    false,
    [
      "tested: the event 1 (b pending) has the id of the event 1 (a pending)",
      "tested: the event 3 (a pending) has the id of the event 3 (b pending)",
    ],
  ],
  ["with a gap that was told after a stop", [first, dropped("3", { deployment: 2, log: 7 }), last], true, []],
  [
    "with a gap of another size than was told",
    [first, dropped("3", { deployment: 1, log: 7 }), last],
    true,
    ["tested: 2 events are missing, first the event 2 (a running); told: 1"],
  ],
  [
    "without a gap that was told",
    [first, second, dropped("2", { deployment: 1 }), third, last],
    true,
    ["tested: 0 events are missing; told: 1"],
  ],
  ["with a gap of a size that was not known", [first, dropped("3", {}), last], true, []],
])("events that a client has received %s", (_what, seen, hasStopped, violations) => {
  const received: Received[] = [
    { client: "other", seen: all, connections: 1, hasStopped: false },
    { client: "tested", seen, connections: 1, hasStopped },
  ];
  expect(checkDeliveries(received, ["a", "b"])).toEqual(violations);
});

test.each<[what: string, revs: readonly string[]]>([
  ["lacks the events of one", ["a", "b", "c"]],
  ["has events of one that was not acknowledged", ["a"]],
  ["has events in another order", ["b", "a"]],
])("what all clients have received %s", (_what, revs) => {
  expect(checkDeliveries([{ client: "one", seen: all, connections: 1, hasStopped: false }], revs)).toEqual([
    `the events are about the deployments a, b instead of ${revs.join(", ")}`,
  ]);
});
