import { expect, test } from "vitest";
import { commitInDoubt } from "../../src/store/flow-store.ts";
import { findStoredFailures } from "../../torture/find-stored-failures.ts";
import type { ChainedRevision, Operation } from "../linearizability/operation.ts";

const failed = (id: string, error: string): Operation => ({
  id,
  client: "a",
  beginMs: 0,
  endMs: 1,
  kind: "deployment",
  expected: undefined,
  outcome: { kind: "unknown", error },
});

const chain: readonly ChainedRevision[] = [
  { rev: "r0", parent: null, operation: null },
  { rev: "r1", parent: "r0", operation: "a1" },
];

test.each<[string, Operation, readonly string[]]>([
  [
    "a stored one",
    failed("a1", "[unavailable] busy"),
    ["a1 is in the database, although it was answered: [unavailable] busy"],
  ],
  ["one that is not stored", failed("a2", "[unavailable] busy"), []],
  ["a stored one with an unknown outcome", failed("a1", String(commitInDoubt())), []],
  [
    "an acknowledged one",
    { ...failed("a1", ""), kind: "deployment", expected: undefined, outcome: { kind: "committed", rev: "r1" } },
    [],
  ],
])("deployments that were answered as failed and are stored are found: %s", (_what, operation, expected) => {
  expect(findStoredFailures([operation], chain)).toEqual(expected);
});
