import { expect, test } from "vitest";
import type { Exchange } from "./forwarded-request.ts";
import { formatReport, judge } from "./report.ts";
import type { SpecResult } from "./specs.ts";

const answered = (status: number, body: unknown, request = "GET /flows"): Exchange => {
  const [method = "", path = ""] = request.split(" ");
  return { method, path, status, type: "application/json", body: JSON.stringify(body) };
};
const result = (exchanges: readonly Exchange[], failure?: string): SpecResult => ({
  file: "flows_spec.js",
  title: "a test",
  failure,
  exchanges,
});

function judgeOne(own: SpecResult, nodeRed: SpecResult, service: SpecResult) {
  return judge([own], [nodeRed], [service])[0];
}

const stubbed = result([answered(200, {})]);

test.each<[string, SpecResult, SpecResult, SpecResult, string, number]>([
  ["no request", result([]), result([]), result([]), "inside", 0],
  ["not passing with its own routers", result([], "x"), result([]), result([]), "broken", 0],
  ["the same response", stubbed, result([answered(200, [1])]), result([answered(200, [2, 3])]), "passed", 0],
  ["more members", stubbed, result([answered(200, { a: 1 })]), result([answered(200, { a: 2, b: 3 })]), "passed", 0],
  ["a member less", stubbed, result([answered(200, { a: 1 })]), result([answered(200, { b: 3 })]), "passed", 1],
  ["another status", stubbed, result([answered(204, "")]), result([answered(200, "")], "204"), "failed", 1],
  [
    "another code",
    stubbed,
    result([answered(400, { code: "a" })]),
    result([answered(400, { code: "b" })]),
    "passed",
    1,
  ],
  [
    "a failure alone",
    stubbed,
    result([answered(400, { code: "a" })]),
    result([answered(400, { code: "a" })], "x"),
    "failed",
    1,
  ],
  [
    "an error that Node-RED does not expect",
    stubbed,
    result([answered(400, { code: "unexpected_error" })], "x"),
    result([answered(400, { code: "b" })], "x"),
    "compared",
    0,
  ],
])("judges %s", (_, own, nodeRed, service, kind, differences) => {
  const verdict = judgeOne(own, nodeRed, service);
  expect([verdict?.kind, verdict?.differences.length]).toEqual([kind, differences]);
});

test("a run that lacks a test is no result", () => {
  expect(() => judge([stubbed], [], [])).toThrow("a run lacks the test a test");
});

test("the report fails for differences without a reason, and for reasons without a difference", () => {
  const differing = judge(
    [stubbed],
    [result([answered(200, {}, "GET /none")])],
    [result([answered(404, {}, "GET /none")], "x")],
  );
  const { text, isExpected } = formatReport(differing, false);
  expect(isExpected).toBe(false);
  expect(text).toContain("NOT EXPECTED: failed: a test\n  GET /none");
  expect(text).toContain("NO LONGER THE CASE: the language may be absent");
});
