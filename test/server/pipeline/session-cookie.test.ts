import { expect, test } from "vitest";
import { readCookie, SessionCookies } from "../../../src/server/pipeline/session-cookie.ts";

test("cookies over TLS have the prefix that binds them to the host", () => {
  const cookies = new SessionCookies("https://flows.example");
  expect(cookies).toMatchObject({
    session: "__Host-flowgate-session",
    transaction: "__Host-flowgate-sign-in",
    attributes: { path: "/", httpOnly: true, secure: true },
  });
  const read = (cookie: string) => cookies.read({ cookie })?.value;
  expect(read("__Host-flowgate-session=value")).toBe("value");
  expect(read("flowgate-session=value")).toBeUndefined();
});

test.each([
  ["name=value", "value"],
  ["other=1; name=value; last=2", "value"],
  ["other=1;name=value", "value"],
  ["name=a=b", "a=b"],
  ["name=", ""],
  ["name=first; name=second", "first"],
  ["names=value", undefined],
  ["other=name=value", undefined],
  ["name", undefined],
  // A name that browsers do not protect by its prefix.
  ["\u00a0name=value", undefined],
  ["\u0085name=value", undefined],
  [undefined, undefined],
])("reads a cookie from %j", (header, value) => {
  expect(readCookie(header, "name")).toBe(value);
});
