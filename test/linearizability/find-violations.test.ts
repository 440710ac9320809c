import fc from "fast-check";
import { expect, test } from "vitest";
import { findViolations } from "./find-violations.ts";
import type { ChainedRevision, DeploymentOutcome, Operation, ReadOutcome } from "./operation.ts";

type Interval = readonly [beginMs: number, endMs: number];

function deployment(id: string, interval: Interval, outcome: DeploymentOutcome, expected?: string): Operation {
  return { ...call(id, interval), kind: "deployment", expected, outcome };
}

function read(id: string, interval: Interval, known: string, outcome: Omit<ReadOutcome, "kind">): Operation {
  return { ...call(id, interval), kind: "read", known, outcome: { kind: "read", ...outcome } };
}

/** The first letter of the id is the name of the client. */
function call(id: string, [beginMs, endMs]: Interval) {
  return { id, client: id.slice(0, 1), beginMs, endMs };
}

function unknown(operation: Operation): Operation {
  const outcome = { kind: "unknown", error: "the connection was closed" } as const;
  return operation.kind === "read" ? { ...operation, outcome } : { ...operation, outcome };
}

const committed = (rev: string): DeploymentOutcome => ({ kind: "committed", rev });
const mismatch = (active: string): DeploymentOutcome => ({ kind: "mismatch", active });

/** Revisions r0, r1 and so on, with the operations that have made them. */
function chainOf(...operations: readonly string[]): ChainedRevision[] {
  return [null, ...operations].map((operation, index) => ({
    rev: `r${index}`,
    parent: index === 0 ? "removed" : `r${index - 1}`,
    operation,
  }));
}

type Case = readonly [name: string, operations: readonly Operation[], chain: readonly ChainedRevision[]];

test.each<Case>([
  ["nothing", [], chainOf()],
  [
    "a comparison that succeeds, one that fails, and a forced deployment",
    [
      deployment("a1", [0, 3], committed("r1"), "r0"),
      deployment("b1", [1, 4], mismatch("r1"), "r0"),
      deployment("b2", [5, 6], committed("r2")),
    ],
    chainOf("a1", "b2"),
  ],
  [
    "concurrent deployments that take effect in the opposite order of their begins and ends",
    [deployment("a1", [0, 5], committed("r2")), deployment("b1", [1, 6], committed("r1"))],
    chainOf("b1", "a1"),
  ],
  [
    "a mismatch with a revision that was replaced before the response",
    [
      deployment("a1", [0, 3], committed("r1")),
      deployment("a2", [4, 5], committed("r2")),
      deployment("b1", [2, 9], mismatch("r1"), "r0"),
    ],
    chainOf("a1", "a2"),
  ],
  [
    "a read of a revision that another client has replaced",
    [
      deployment("a1", [0, 1], committed("r1")),
      deployment("b1", [2, 3], committed("r2")),
      read("a2", [4, 5], "r1", { rev: "r1", flowsOf: "a1" }),
    ],
    chainOf("a1", "b1"),
  ],
  ["a read without flows", [read("a1", [0, 1], "r0", { rev: "r0", flowsOf: undefined })], chainOf()],
  [
    "unknown outcomes, with and without a revision, and a late commit",
    [
      unknown(deployment("a1", [0, 1], committed("?"), "r1")),
      unknown(deployment("c1", [0, 1], committed("?"), "r0")),
      unknown(read("c2", [2, 3], "r0", { rev: "?", flowsOf: undefined })),
      deployment("b1", [2, 3], committed("r1"), "r0"),
    ],
    chainOf("b1", "a1"),
  ],
])("accepts %s", (_name, operations, chain) => {
  expect(findViolations(operations, chain)).toEqual([]);
});

const relinked = chainOf("a1", "b1").with(2, { rev: "r2", parent: "r0", operation: "b1" });

test.each<readonly [...Case, violations: readonly string[]]>([
  [
    "an acknowledged deployment that was lost",
    [deployment("a1", [0, 1], committed("r1"))],
    chainOf(),
    ["a1 has returned revision r1, which does not exist"],
  ],
  [
    "a deployment that was made twice",
    [deployment("a1", [0, 1], committed("r2"))],
    chainOf("a1", "a1"),
    ["a1 has made more than one revision"],
  ],
  [
    "a revision that was acknowledged twice",
    [deployment("a1", [0, 1], committed("r1")), deployment("b1", [0, 1], committed("r1"))],
    chainOf("a1"),
    ["b1 has not made revision r1"],
  ],
  ["a revision of nobody", [], chainOf("a1"), ["nobody has deployed revision r1"]],
  [
    "two revisions with the same parent",
    [deployment("a1", [0, 9], committed("r1"), "r0"), deployment("b1", [0, 9], committed("r2"), "r0")],
    relinked,
    ["revision r2 follows r1, but its parent is r0"],
  ],
  [
    "a comparison that has replaced another revision",
    [deployment("a1", [0, 9], committed("r1"), "r0"), deployment("b1", [0, 9], committed("r2"), "r0")],
    chainOf("a1", "b1"),
    ["b1 has replaced revision r1, but expected r0"],
  ],
  [
    "the same with an unknown outcome",
    [deployment("a1", [0, 9], committed("r1"), "r0"), unknown(deployment("b1", [0, 9], committed("?"), "r0"))],
    chainOf("a1", "b1"),
    ["b1 has replaced revision r1, but expected r0"],
  ],
  [
    "a deployment that takes effect before one that has ended",
    [deployment("a1", [0, 1], committed("r2")), deployment("b1", [2, 3], committed("r1"))],
    chainOf("b1", "a1"),
    ["a1 ended before b1 began, but comes after it"],
  ],
  [
    "the same with another deployment between them",
    [
      deployment("a1", [0, 1], committed("r3")),
      deployment("b1", [0, 9], committed("r2")),
      deployment("c1", [2, 9], committed("r1")),
    ],
    chainOf("c1", "b1", "a1"),
    ["a1 ended before c1 began, but comes after it"],
  ],
  [
    "a rejection although the expected revision was active",
    [deployment("a1", [0, 1], mismatch("r0"), "r0")],
    chainOf(),
    ["a1 was rejected, although revision r0 was active as expected"],
  ],
  [
    "a rejection because of a revision that was already replaced",
    [
      deployment("a1", [0, 1], committed("r1")),
      deployment("b1", [2, 3], committed("r2")),
      deployment("c1", [4, 5], mismatch("r1"), "r2"),
    ],
    chainOf("a1", "b1"),
    ["b1 ended before c1 began, but comes after it"],
  ],
  [
    "a rejection because of a revision that was not deployed yet",
    [deployment("a1", [2, 3], committed("r1")), deployment("b1", [0, 1], mismatch("r1"), "r0")],
    chainOf("a1"),
    ["b1 ended before a1 began, but has observed revision r1, which comes after it"],
  ],
  [
    "a rejection of a forced deployment",
    [deployment("a1", [0, 1], mismatch("r0"))],
    chainOf(),
    ["a1 was rejected, although it was forced"],
  ],
  [
    "a rejected deployment that was committed",
    [deployment("a1", [0, 1], mismatch("r0"), "other")],
    chainOf("a1"),
    ["a1 was rejected, but has made revision r1"],
  ],
  [
    "a read of something that does not exist",
    [read("a1", [0, 1], "r0", { rev: "r1", flowsOf: undefined })],
    chainOf(),
    ["a1 has returned revision r1, which does not exist"],
  ],
  [
    "a read of what is deployed later",
    [deployment("a1", [2, 3], committed("r1")), read("b1", [0, 1], "r0", { rev: "r1", flowsOf: "a1" })],
    chainOf("a1"),
    ["b1 ended before a1 began, but has observed revision r1, which comes after it"],
  ],
  [
    "a read that is older than the known revision",
    [deployment("a1", [0, 1], committed("r1")), read("b1", [2, 3], "r1", { rev: "r0", flowsOf: undefined })],
    chainOf("a1"),
    ["b1 has returned revision r0, which is older than r1"],
  ],
  [
    "a read that is older than what the client has deployed",
    [deployment("a1", [0, 1], committed("r1")), read("a2", [2, 3], "r0", { rev: "r0", flowsOf: undefined })],
    chainOf("a1"),
    ["a2 has returned revision r0, but a1 a newer one"],
  ],
  [
    "a revision with the flows of another one",
    [
      deployment("a1", [0, 1], committed("r1")),
      deployment("a2", [2, 3], committed("r2")),
      read("b1", [4, 5], "r0", { rev: "r2", flowsOf: "a1" }),
    ],
    chainOf("a1", "a2"),
    ["b1 has returned revision r2 with the flows of a1"],
  ],
])("finds %s", (_name, operations, chain, violations) => {
  expect(findViolations(operations, chain)).toEqual(violations);
});

/** A call in a random run: it takes effect at the moment of its index. */
const step = fc.record({
  kind: fc.constantFrom("force", "compare", "read"),
  beforeMs: fc.nat(50),
  afterMs: fc.nat(50),
  isUnknown: fc.boolean(),
});

test("accepts all runs of a register", () => {
  const runs = fc.array(step, { maxLength: 100 });
  fc.assert(
    fc.property(runs, (steps) => {
      const chain = chainOf();
      const operations = steps.map(({ kind, beforeMs, afterMs, isUnknown }, index): Operation => {
        const { rev: active, operation } = chain.at(-1) as ChainedRevision;
        const id = `${index} ${kind}`;
        const interval = [index - beforeMs, index + afterMs] as const;
        const expected = { force: undefined, compare: chain.at(-1 - (index % 2))?.rev, read: undefined }[kind];
        if (kind === "read") {
          return read(id, interval, "r0", { rev: active, flowsOf: operation ?? undefined });
        }
        const commits = expected === undefined || expected === active;
        if (commits) {
          chain.push({ rev: `r${chain.length}`, parent: active, operation: id });
        }
        const outcome = commits ? committed(chain.at(-1)?.rev ?? "") : mismatch(active);
        const performed = deployment(id, interval, outcome, expected);
        return isUnknown ? unknown(performed) : performed;
      });
      const ofOwnClient = operations.map((operation) => ({ ...operation, client: operation.id }));
      expect(findViolations(ofOwnClient, chain)).toEqual([]);
    }),
  );
});
