import { expect, test } from "vitest";
import { readCookie } from "@flowgate/base/cookies";
import { cookiesAtRequests, SessionCookies } from "../../../src/server/pipeline/session-cookie.ts";

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
  ["name=value; name=value", "value"],
  // Another program on the host has set one of them, for a path.
  ["name=first; name=second", undefined],
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

test.each([
  ["http", "localhost:8080", "http://localhost:8080"],
  ["http", "localhost:80", "http://localhost"],
  ["http", "127.0.0.1:8080", "http://127.0.0.1:8080"],
  ["http", "[::1]:8080", "http://[::1]:8080"],
  ["https", "flows.example", "https://flows.example"],
  ["https", "FLOWS.example:443", "https://flows.example"],
  // Plain HTTP over a network, and names that may resolve to loopback.
  ["http", "flows.example", undefined],
  ["http", "192.0.2.1:8080", undefined],
  ["http", "evil.localhost:8080", undefined],
  ["http", "localhost.evil.example", undefined],
  // No authorities.
  ["https", "", undefined],
  ["https", "user@flows.example", undefined],
  ["https", "flows.example/path", undefined],
  ["https", "flows.example?query", undefined],
  ["https", "flows.example#fragment", undefined],
  ["https", "flows example", undefined],
  ["ftp", "localhost", undefined],
  ["", "localhost", undefined],
])("a request of %s://%s has the cookies of %s", (scheme, host, origin) => {
  const find = cookiesAtRequests();
  const here = () => false;
  expect(find(scheme, host, here)?.origin).toBe(origin);
  expect(find("http", "localhost", here)?.origin).toBe("http://localhost");
  expect(find(scheme, host, here)?.origin).toBe(origin);
});

test("a request of another machine that a proxy here has received has cookies with https only", () => {
  const find = cookiesAtRequests();
  const elsewhere = () => true;
  expect(find("http", "localhost", elsewhere)).toBeUndefined();
  expect(find("https", "localhost", elsewhere)?.origin).toBe("https://localhost");
});
