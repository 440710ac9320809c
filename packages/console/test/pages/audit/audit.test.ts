import { AuditKind } from "@flowgate/client";
import { expect, test } from "vitest";
import { kinds, toRequest } from "../../../src/pages/audit/filters.ts";
import { pathOfSubject } from "../../../src/pages/audit/subject.ts";
import { kindTexts } from "../../../src/texts/audit.ts";

const none = { user: "", kind: "", since: "", until: "" };
test("has words for exactly the kinds of the contract", () => {
  expect(Object.keys(kindTexts)).toEqual(kinds.map(({ value }) => value));
});

test("filters become the request", () => {
  expect(
    toRequest({ user: "ada", kind: "sign_in", since: "2026-11-27T00:00:00Z", until: "2026-11-28T00:00:00Z" }),
  ).toMatchObject({
    user: "ada",
    kind: [AuditKind.SIGN_IN],
    startTime: { seconds: 1_795_737_600n },
    endTime: { seconds: 1_795_824_000n },
  });
});

test.each([{ kind: "unspecified" }, { kind: "SIGN_IN" }, { since: "yesterday" }, { until: "<b>" }])(
  "%j in the address is ignored",
  (filters) => {
    expect(toRequest({ ...none, ...filters })).toEqual({ user: "", kind: [] });
  },
);

test.each([
  [AuditKind.DEPLOYMENT, "r/1", "/history/r%2F1"],
  [AuditKind.PROPOSAL_REJECTED, "p1", "/proposals/p1"],
  [AuditKind.TOKEN_REVOKED, "abc", undefined],
  [AuditKind.FLOWS_STOPPED, "", undefined],
])("an entry of kind %i about %s leads to %s", (kind, subject, path) => {
  expect(pathOfSubject({ kind, subject })).toBe(path);
});
