import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { codeOfStatus, statusOfCode } from "../../src/errors/codes.ts";

const codes = Object.values(Code).filter((code) => typeof code === "number");

test("the status of each code maps back to a code with that status", () => {
  expect(codes).toHaveLength(16);
  for (const code of codes) {
    expect([code, statusOfCode(codeOfStatus(statusOfCode(code)))]).toEqual([code, statusOfCode(code)]);
  }
});

test.each<[status: number, code: Code]>([
  [400, Code.InvalidArgument],
  [405, Code.Unimplemented],
  [406, Code.InvalidArgument],
  [408, Code.DeadlineExceeded],
  [409, Code.Aborted],
  [412, Code.FailedPrecondition],
  [413, Code.ResourceExhausted],
  [415, Code.InvalidArgument],
  [421, Code.InvalidArgument],
  [429, Code.ResourceExhausted],
  [431, Code.ResourceExhausted],
  [499, Code.Canceled],
  [500, Code.Internal],
  [502, Code.Internal],
  [505, Code.Unimplemented],
])("%d maps to code %d", (status, code) => {
  expect(codeOfStatus(status)).toBe(code);
});
