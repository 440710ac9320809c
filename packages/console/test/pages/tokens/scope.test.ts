import { expect, test } from "vitest";
import { noScope, requestedScope, withName } from "../../../src/pages/tokens/scope.ts";

test("the scope has what is selected and what is typed, each once", () => {
  const choice = withName(withName(noScope, "viewer", true), "flows.write", true);
  expect(requestedScope({ ...choice, others: "  release-manager, flows.write flows.write@tab:A " })).toBe(
    "viewer flows.write release-manager flows.write@tab:A",
  );
});

test("what is no longer selected is left out", () => {
  expect(requestedScope(withName(withName(noScope, "read", true), "read", false))).toBe("");
});

test("everything is a request without a scope, whatever is selected", () => {
  expect(requestedScope({ ...withName(noScope, "read", true), isEverything: true })).toBeUndefined();
});
