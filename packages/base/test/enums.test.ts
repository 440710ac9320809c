import { expect, test } from "vitest";
import { DeploymentOutcome, RevisionCause } from "../../../gen/flowgate/v1/flows_pb.ts";
import { enumValue, enumWord } from "../src/enums.ts";

test("an enum has a word for each of its numbers", () => {
  expect(enumValue(RevisionCause, "automatic_undo")).toBe(RevisionCause.AUTOMATIC_UNDO);
  expect(enumWord(RevisionCause, RevisionCause.AUTOMATIC_UNDO)).toBe("automatic_undo");
  expect(enumWord(DeploymentOutcome, DeploymentOutcome.UNSPECIFIED)).toBe("unspecified");
});

test("a number that is not declared has no word", () => {
  expect(enumWord(RevisionCause, 999)).toBeUndefined();
});
