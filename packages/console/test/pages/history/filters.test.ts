import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { DeploymentOutcome, DeploymentType } from "@flowgate/client";
import { describe, expect, test } from "vitest";
import { requestOf } from "../../../src/pages/history/filters.ts";

describe("the filters of an address", () => {
  const none = { user: "", type: "", outcome: "", pinned: "", since: "", until: "" };

  test("are those of the request", () => {
    const since = new Date("2026-11-26T10:00:00Z");
    expect(
      requestOf({ ...none, user: "ada", type: "nodes", outcome: "failed", pinned: "no", since: since.toISOString() }),
    ).toEqual({
      user: "ada",
      deploymentType: DeploymentType.NODES,
      outcome: DeploymentOutcome.FAILED,
      pinned: false,
      startTime: timestampFromDate(since),
    });
  });

  test("are left out if they are none", () => {
    const request = requestOf(none);
    expect(requestOf({ ...none, type: "constructor", outcome: "great", pinned: "maybe", until: "soon" })).toEqual(
      request,
    );
    expect(request).toEqual({
      user: "",
      deploymentType: DeploymentType.UNSPECIFIED,
      outcome: DeploymentOutcome.UNSPECIFIED,
    });
  });
});
