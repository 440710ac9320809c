import { expect, test } from "vitest";
import { clientKeyOf } from "../../src/auth/caller.ts";

test.each([
  ["10.0.0.1", "10.0.0.1"],
  ["::ffff:10.0.0.1", "10.0.0.1"],
  ["::FFFF:a00:1", "10.0.0.1"],
  ["0:0:0:0:0:ffff:10.0.0.1", "10.0.0.1"],
  ["::fffe:10.0.0.1", "0:0:0:0::/64"],
  ["unix:", "unix:"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:0DB8:1:2::9", "2001:db8:1:2::/64"],
  ["2001:db8::9", "2001:db8:0:0::/64"],
  ["64:ff9b::192.0.2.33", "64:ff9b:0:0::/64"],
  ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ["::1", "0:0:0:0::/64"],
  ["", ""],
])("attempts from %s count as from %s", (address, source) => {
  expect(clientKeyOf(address)).toBe(source);
});
