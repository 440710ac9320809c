import { BlockList } from "node:net";
import { expect, test } from "vitest";
import { type NetworkAccess, createNetworkPolicy, parseNetworkRule } from "../src/network-policy.ts";

test.each([
  "10.0.0.1",
  "10.0.0.0/8",
  "0.0.0.0/0",
  "192.0.2.1:443",
  "192.0.2.0/24:443",
  "*",
  "*:25",
  "::1",
  "fd00::/8",
  "[::1]",
  "[::1]:8080",
  "[fd00::/8]:8080",
  "::ffff:10.0.0.0/104",
  "1:2:3:4:5:6:7:8",
  "1:2:3:4:5:6:192.0.2.1",
])("%s is a rule", (text) => {
  expect(parseNetworkRule(text)).toBeDefined();
});

test.each([
  "",
  "localhost",
  "localhost:80",
  "10.0.0",
  "10.0.0.1.2",
  "10.0.0.256",
  "10.0.0.01",
  "10.0.0.0/33",
  "10.0.0.0/08",
  "10.0.0.0/",
  "10.0.0.0/8/8",
  "10.0.0.1:",
  "10.0.0.1:0",
  "10.0.0.1:65536",
  "[10.0.0.1]:80",
  "*/8",
  "**",
  ":80",
  ":::",
  "1::2::3",
  "1:2:3:4:5:6:7",
  "1:2:3:4:5:6:7:8:9",
  "1:2:3:4:5:6:7:8::",
  "12345::",
  "g::",
  "1:",
  ":1",
  "::1/129",
  "fe80::1%eth0",
  "1:2:3:4:5:6:7:192.0.2.1",
  "::192.0.2.1:80",
  "[::1",
  " 10.0.0.1",
])("%j is no rule", (text) => {
  expect(parseNetworkRule(text)).toBeUndefined();
});

const deny = "denied by the option runtime.network.deny";
const unlisted = "not listed in the option runtime.network.allow";
const ownPort =
  "a port of the service, its store, its collector or a token issuer, and no entry of the option runtime.network.allow names it";
const permitted = undefined;

test.each<[access: NetworkAccess, address: string, port: number, expected: string | undefined]>([
  [{ deny: [] }, "192.0.2.1", 1, permitted],
  [{ deny: ["192.0.2.1"] }, "192.0.2.1", 1, deny],
  [{ deny: ["192.0.2.1"] }, "192.0.2.2", 1, permitted],
  [{ deny: ["192.0.2.1"] }, "::ffff:192.0.2.1", 1, deny],
  [{ deny: ["192.0.2.1"] }, "::FFFF:c000:0201", 1, deny],
  [{ deny: ["192.0.2.1"] }, "0:0:0:0:0:ffff:192.0.2.1", 1, deny],
  [{ deny: ["::ffff:192.0.2.0/120"] }, "192.0.2.9", 1, deny],
  [{ deny: ["10.0.0.0/9"] }, "10.127.255.255", 1, deny],
  [{ deny: ["10.0.0.0/9"] }, "10.128.0.0", 1, permitted],
  [{ deny: ["2001:db8::/33"] }, "2001:db8:7fff::1", 1, deny],
  [{ deny: ["2001:db8::/33"] }, "2001:db8:8000::1", 1, permitted],
  [{ deny: ["0.0.0.0/0"] }, "::1", 1, permitted],
  [{ deny: ["0.0.0.0/0"] }, "192.0.2.1", 1, deny],
  [{ deny: ["0.0.0.0/0"] }, "::ffff:192.0.2.1", 1, deny],
  [{ deny: ["::/0"] }, "127.0.0.1", 1, permitted],
  [{ deny: ["::/0"] }, "::ffff:192.0.2.1", 1, permitted],
  [{ deny: ["::ffff:0:0/95"] }, "192.0.2.1", 1, permitted],
  [{ deny: ["192.0.2.1"] }, "::ffff:192.0.2.1%eth0", 1, deny],
  [{ deny: ["::/0"] }, "2001:db8::", 1, deny],
  [{ deny: ["*:25"] }, "2001:db8::", 25, deny],
  [{ deny: ["*:25"] }, "2001:db8::", 26, permitted],
  [{ deny: ["fe80::/10"] }, "fe80::1%eth0", 1, deny],
  // These reach loopback addresses.
  [{ deny: ["127.0.0.0/8"] }, "0.0.0.0", 1, deny],
  [{ deny: ["127.0.0.0/8"] }, "::", 1, deny],
  [{ deny: ["::1"] }, "::", 1, deny],
  [{ deny: ["127.0.0.0/8"] }, "::ffff:0.0.0.0", 1, deny],
  [{ allow: [], deny: [] }, "192.0.2.1", 1, unlisted],
  [{ allow: ["192.0.2.0/24:443"], deny: [] }, "192.0.2.1", 443, permitted],
  [{ allow: ["192.0.2.0/24:443"], deny: [] }, "192.0.2.1", 80, unlisted],
  [{ allow: ["192.0.2.0/24"], deny: ["192.0.2.1"] }, "192.0.2.1", 80, deny],
  [{ allow: ["*"], deny: [] }, "::1", 80, permitted],
  [{ deny: [] }, "localhost", 1, "not an IP address"],
  [{ deny: [] }, "127.0.0.1\0", 1, "not an IP address"],
  [{ deny: [] }, "fe80::1%eth0\0", 1, "not an IP address"],
  [{ deny: [] }, "127.1", 1, "not an IP address"],
  [{ deny: [] }, "127.0.0.01", 1, "not an IP address"],
  [{ deny: [] }, "0x7f.0.0.1", 1, "not an IP address"],
  [{ deny: [] }, "", 1, "not an IP address"],
])("under %j, connecting to %s, port %i: %s", (access, address, port, expected) => {
  expect(createNetworkPolicy(access).findDenial(address, port, false)).toBe(expected);
});

test.each<[access: NetworkAccess, expected: string | undefined]>([
  [{ deny: [] }, ownPort],
  [{ allow: ["*"], deny: [] }, ownPort],
  [{ allow: ["127.0.0.1"], deny: [] }, ownPort],
  [{ allow: ["127.0.0.1:81"], deny: [] }, ownPort],
  [{ allow: ["127.0.0.1:80"], deny: [] }, permitted],
  [{ allow: ["*:80"], deny: [] }, permitted],
  [{ allow: ["*", "127.0.0.1:80"], deny: [] }, permitted],
  [{ allow: ["127.0.0.1:80"], deny: ["127.0.0.1:80"] }, deny],
])("under %j, connecting to a port of the service: %s", (access, expected) => {
  expect(createNetworkPolicy(access).findDenial("127.0.0.1", 80, true)).toBe(expected);
});

const [handleKey = Symbol()] = Object.getOwnPropertySymbols(new BlockList());
const handleOf = (list: BlockList): object => (list as BlockList & Record<symbol, object>)[handleKey] ?? {};

test.each<[target: object, key: string | symbol, value: unknown]>([
  [BlockList.prototype, "check", () => false],
  [Object.getPrototypeOf(handleOf(new BlockList())) as object, "checkString", () => false],
  [Reflect, "apply", () => false],
  [Object.prototype, "port", 1],
])("an address stays denied when flows replace a property of Node: %#", (target, key, value) => {
  const policy = createNetworkPolicy({ deny: ["192.0.2.1"] });
  const previous = Object.getOwnPropertyDescriptor(target, key);
  Object.defineProperty(target, key, { value, configurable: true, writable: true });
  let denial: string | undefined;
  try {
    denial = policy.findDenial("192.0.2.1", 1, false);
  } finally {
    if (previous === undefined) {
      Reflect.deleteProperty(target, key);
    } else {
      Object.defineProperty(target, key, previous);
    }
  }
  expect(denial).toBe(deny);
});
