import { afterEach, expect, test, vi } from "vitest";
import { headerConditions } from "../../src/services/rest.ts";
import type { Revision } from "../../src/store/revision.ts";

afterEach(() => void vi.unstubAllEnvs());

const committedAtMs = Date.UTC(1994, 10, 6, 8, 49, 37);

// RFC 9110, section 5.6.7.
test.each([
  ["Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:36 GMT"],
  ["Sunday, 06-Nov-94 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:36 GMT"],
  ["Sun Nov  6 08:49:37 1994", "Sun Nov  6 08:49:36 1994"],
  // Not an HTTP-date, but unambiguous.
  ["Sun, 06 Nov 1994 09:49:37 +0100", "Sun, 06 Nov 1994 09:49:36 +0100"],
])("If-Unmodified-Since: %s has its zone, or UTC", (same, earlier) => {
  vi.stubEnv("TZ", "America/New_York");
  const active = { rev: "r", committedAtMs } as Revision;
  const evaluate = (date: string) =>
    headerConditions(undefined, new Headers({ "if-unmodified-since": date })).evaluate(active);
  expect(evaluate(same)).toBe("r");
  expect(() => evaluate(earlier)).toThrow(
    "If-Unmodified-Since: the flows were deployed at Sun, 06 Nov 1994 08:49:37 GMT",
  );
});
