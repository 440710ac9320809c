import { create } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { AuditEntrySchema, AuditKind } from "@flowgate/client";
import { expect, test } from "vitest";
import { formatEntry, writeExport } from "../../../src/pages/audit/export.ts";
import { kinds, toRequest } from "../../../src/pages/audit/filters.ts";
import { pathOfSubject } from "../../../src/pages/audit/subject.ts";
import { kindTexts } from "../../../src/texts/audit.ts";

const none = { user: "", kind: "", since: "", until: "" };
const entry = (seq: number) =>
  create(AuditEntrySchema, {
    seq,
    time: timestampFromDate(new Date("2026-11-27T00:10:00Z")),
    kind: AuditKind.SIGN_IN_FAILED,
    user: "ada",
    detail: "wrong password",
    count: 3,
    hash: "ab".repeat(32),
  });

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

test("a line has the entry as the API sends it over REST", () => {
  expect(formatEntry(entry(7))).toBe(
    `{"seq":7,"time":"2026-11-27T00:10:00Z","kind":"sign_in_failed","user":"ada","detail":"wrong password","count":3,"hash":"${"ab".repeat(32)}"}\n`,
  );
});

test("an export has all entries in order, and reports its progress before it ends", async () => {
  async function* responses() {
    for (let seq = 1; seq <= 20_000; seq++) {
      yield { entry: entry(seq) };
    }
  }
  const progress: number[] = [];
  const file = await writeExport(responses(), (entries) => progress.push(entries));
  const lines = (await file.text()).split("\n");
  expect(lines.at(-1)).toBe("");
  expect(lines.slice(0, -1).map((line) => (JSON.parse(line) as { seq: number }).seq)).toEqual(
    Array.from({ length: 20_000 }, (_, index) => index + 1),
  );
  expect(progress.length).toBeGreaterThan(2);
  expect(progress.at(-1)).toBe(20_000);
});

test.each([
  [AuditKind.DEPLOYMENT, "r/1", "/history/r%2F1"],
  [AuditKind.PROPOSAL_REJECTED, "p1", "/proposals/p1"],
  [AuditKind.TOKEN_REVOKED, "abc", undefined],
  [AuditKind.FLOWS_STOPPED, "", undefined],
])("an entry of kind %i about %s leads to %s", (kind, subject, path) => {
  expect(pathOfSubject({ kind, subject })).toBe(path);
});
