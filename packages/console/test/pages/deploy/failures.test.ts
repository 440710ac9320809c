import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { DeploymentErrorReason, DeploymentErrorSchema, ErrorInfoSchema } from "@flowgate/client";
import { expect, test } from "vitest";
import { findConflict, needsApproval } from "../../../src/pages/deploy/failures.ts";

function failure(code: DeploymentErrorReason, conflicts: readonly string[] = []) {
  const value = create(DeploymentErrorSchema, {
    code,
    active: { rev: "r2", user: "bob" },
    changes: conflicts.map((conflict, index) => ({ nodeId: `n${index}`, conflict })),
    changeCount: conflicts.length + 3,
  });
  return new ConnectError("a conflict", Code.Aborted, undefined, [{ desc: DeploymentErrorSchema, value }]);
}

test("a conflict has the changes of both sides, and how many are not listed", () => {
  expect(findConflict(failure(DeploymentErrorReason.VERSION_MISMATCH, ["", ""]))).toMatchObject({
    active: { rev: "r2", user: "bob" },
    changes: [{ nodeId: "n0" }, { nodeId: "n1" }],
    more: 3,
    canMerge: true,
  });
});

test("changes that exclude each other can't be merged", () => {
  expect(findConflict(failure(DeploymentErrorReason.MERGE_CONFLICT, ["both changed it"]))?.canMerge).toBe(false);
  expect(findConflict(failure(DeploymentErrorReason.VERSION_MISMATCH, ["both changed it"]))?.canMerge).toBe(false);
});

test("other errors are no conflicts", () => {
  expect(findConflict(failure(DeploymentErrorReason.IDEMPOTENCY_KEY_REUSED))).toBeUndefined();
  expect(findConflict(failure(DeploymentErrorReason.PROPOSAL_STALE))).toBeUndefined();
  expect(findConflict(new ConnectError("lost", Code.Aborted))).toBeUndefined();
  expect(findConflict(new TypeError("Failed to fetch"))).toBeUndefined();
});

test("a deployment that needs approval is recognised by its reason", () => {
  const error = (domain: string, reason: string) =>
    new ConnectError("no", Code.PermissionDenied, undefined, [{ desc: ErrorInfoSchema, value: { domain, reason } }]);
  expect(needsApproval(error("flowgate", "approval_required"))).toBe(true);
  expect(needsApproval(error("flowgate", "insufficient_scope"))).toBe(false);
  expect(needsApproval(error("other", "approval_required"))).toBe(false);
});
