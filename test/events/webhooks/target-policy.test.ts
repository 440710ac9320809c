import { expect, test } from "vitest";
import { createTargetPolicy, isPublic, isTargetEntry } from "../../../src/events/webhooks/target-policy.ts";

test.each([
  "0.0.0.0",
  "10.1.2.3",
  "100.64.0.1",
  "127.0.0.1",
  "127.255.255.254",
  "169.254.169.254",
  "172.16.0.1",
  "192.168.1.1",
  "198.18.0.1",
  "224.0.0.1",
  "255.255.255.255",
  "::",
  "::1",
  "::ffff:127.0.0.1",
  "::ffff:a9fe:a9fe",
  "::127.0.0.1",
  "64:ff9b::7f00:1",
  "2001::1",
  "2001:db8::1",
  "2002:7f00:1::",
  "fc00::1",
  "fd00:ec2::254",
  "fe80::1",
  "fe80::1%eth0",
  "ff02::1",
  "localhost",
  "",
])("%j is not public", (address) => {
  expect(isPublic(address)).toBe(false);
});

test.each(["1.1.1.1", "172.15.0.1", "172.32.0.1", "192.0.3.1", "::ffff:1.1.1.1", "2606:4700::1111", "2a00:1450::1"])(
  "%j is public",
  (address) => {
    expect(isPublic(address)).toBe(true);
  },
);

const denied = "denied by the option webhooks.network.deny";
const notPublic = "not a public address, and not listed in the option webhooks.network.allow";
const notListed = "not listed in the option webhooks.network.allow";

test.each<[allow: string[] | undefined, deny: string[], host: string, address: string, port: number, string?]>([
  [undefined, [], "hooks.example", "1.1.1.1", 443],
  [undefined, [], "hooks.example", "10.0.0.1", 443, notPublic],
  [undefined, ["1.1.1.0/24"], "hooks.example", "1.1.1.1", 443, denied],
  [undefined, ["hooks.example"], "hooks.example", "1.1.1.1", 443, denied],
  [undefined, ["hooks.example"], "Hooks.Example.", "1.1.1.1", 443, denied],
  [["relay.internal"], [], "relay.internal.", "10.0.0.1", 80],
  [["10.0.0.1"], [], "10.0.0.1", "10.0.0.1", 80],
  [["10.0.0.0/8"], [], "relay", "::ffff:10.0.0.1", 80],
  [["10.0.0.0/8:8080"], [], "relay", "10.0.0.1", 80, notPublic],
  [["10.0.0.0/8"], [], "hooks.example", "1.1.1.1", 443, notListed],
  [["10.0.0.0/8", "*:443"], [], "hooks.example", "1.1.1.1", 443],
  [["10.0.0.0/8", "*:443"], [], "hooks.example", "1.1.1.1", 80, notListed],
  [["*"], [], "hooks.example", "169.254.169.254", 80, notPublic],
  [["*"], [], "hooks.example", "::1", 80, notPublic],
  [["relay.internal"], [], "Relay.Internal", "10.0.0.1", 80],
  [["relay.internal:8443"], [], "relay.internal", "10.0.0.1", 80, notPublic],
  [["relay.internal"], [], "other.internal", "10.0.0.1", 80, notPublic],
  [["relay.internal"], ["10.0.0.0/8"], "relay.internal", "10.0.0.1", 80, denied],
  [["fd00::/8"], [], "relay", "fd00::1", 80],
])("with allow %j and deny %j, %s at %s port %i: %j", (allow, deny, host, address, port, expected) => {
  expect(createTargetPolicy({ allow, deny }).findDenial(host, address, port)).toBe(expected);
});

test.each([
  ["*", true],
  ["*:443", true],
  ["10.0.0.0/8", true],
  ["[fd00::1]:443", true],
  ["relay.internal", true],
  ["relay.internal:8443", true],
  ["localhost", true],
  ["10.0.0", false],
  ["0x7f.1", false],
  ["https://relay", false],
  ["relay/path", false],
  ["", false],
])("whether %j is an entry: %s", (entry, expected) => {
  expect(isTargetEntry(entry)).toBe(expected);
});
