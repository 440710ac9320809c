import { expect, test } from "vitest";
import { capDeadline } from "../../src/server/rpc/deadline-cap.ts";

test.each([
  ["grpc-timeout", "2S", 5_000, "2S"],
  ["grpc-timeout", "5000m", 5_000, "5000m"],
  ["grpc-timeout", "6S", 5_000, "5000m"],
  ["grpc-timeout", "99999999H", 5_000, "5000m"],
  ["grpc-timeout", "99999999H", 2_147_483_647, "2147483S"],
  ["grpc-timeout", "soon", 5_000, "soon"],
  ["connect-timeout-ms", "4999", 5_000, "4999"],
  ["connect-timeout-ms", "9999999999", 5_000, "5000"],
  ["connect-timeout-ms", "99999999999", 5_000, "99999999999"],
])("%s: %s, of which %i ms are allowed, is %s", (name, value, mostMs, capped) => {
  const header = new Headers({ [name]: value });
  capDeadline(header, mostMs);
  expect([...header]).toEqual([[name, capped]]);
});

test("a call without a deadline gets none", () => {
  const header = new Headers();
  capDeadline(header, 5_000);
  expect([...header]).toEqual([]);
});
