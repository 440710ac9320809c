import { describe, expect, test } from "vitest";
import { findEarlyResponses } from "../../torture/find-early-responses.ts";
import { countCalls, findForeignAddresses, loopback, parseTrace } from "../../torture/strace.ts";

const hex = (text: string): string =>
  [...Buffer.from(text, "latin1")].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("");

const write = `7 pwrite64(5<${hex("/data/flowgate.db-wal")}>, "", 24, 0) = 24`;
const sync = `7 fsync(5<${hex("/data/flowgate.db-wal")}>) = 0`;
const send = (text: string): string => `3 write(9<${hex("socket:[1]")}>, "${hex(text)}", 15) = 15`;
const response = send("HTTP/1.1 200 OK");

describe("responses before their writes are on the disk are found", () => {
  test.each<[string, readonly string[], number]>([
    ["after the fsync", [write, sync, response], 0],
    ["without an fsync", [write, response], 1],
    ["while the fsync has not returned", [write, sync.replace(") = 0", " <unfinished ...>"), response], 1],
    [
      "after an fsync of two lines",
      [write, sync.replace(") = 0", " <unfinished ...>"), "7 <... fsync resumed>) = 0", response],
      0,
    ],
    ["after an fsync that failed", [write, sync.replace("= 0", "= -1 EIO (Input/output error)"), response], 1],
    ["with a write after the fsync", [write, sync, write, response], 1],
    ["with a line of the log, which is no response", [write, send(`{"level":"info"}`), sync, response], 0],
  ])("%s", (_what, lines, expected) => {
    expect(findEarlyResponses(parseTrace(lines.join("\n"))).violations).toHaveLength(expected);
  });
});

test("calls are counted by thread, once each", () => {
  const trace = ["3 write(1, ) = 1", "7 write(1,  <unfinished ...>", "7 <... write resumed>) = 1", "7 write(1, ) = 1"];
  expect(countCalls(parseTrace(trace.join("\n")))).toEqual(new Map([["write", 2]]));
});

test.each([
  [`3 connect(9<socket:[1]>, {sa_family=AF_INET, sin_port=htons(1), sin_addr=inet_addr("127.0.0.1")}, 16) = 0`, []],
  [`3 connect(9, {sa_family=AF_INET6, sin6_port=htons(1), inet_pton(AF_INET6, "::1", &sin6_addr)}, 28) = 0`, []],
  [`3 connect(9, {sa_family=AF_UNIX, sun_path="/run/x"}, 9) = 0`, []],
  [
    `3 sendto(9, "", 0, 0, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("192.0.2.1")}, 16) = 0`,
    ["192.0.2.1"],
  ],
  [
    `3 connect(9, {sa_family=AF_INET6, sin6_port=htons(1), inet_pton(AF_INET6, "2001:db8::1", &sin6_addr)}, 28) = 0`,
    ["2001:db8::1"],
  ],
])("the addresses of other hosts are found: %s", (line, expected) => {
  expect(findForeignAddresses(parseTrace(line), loopback)).toEqual(expected);
});
