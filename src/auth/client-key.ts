import { isIPv6 } from "node:net";

/**
 * What tries are counted by: an IPv4 address, also where it is mapped into IPv6; of an IPv6 address the
 * /64, since one host has all of it.
 */
export function clientKeyOf(address: string): string {
  if (!address.includes(":") || !isIPv6(address)) {
    return address;
  }
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) {
    return mapped;
  }
  const [head = "", tail] = address.replace(/%.*$/, "").split("::");
  const groups = groupsOf(head);
  const rest = tail === undefined ? [] : groupsOf(tail);
  const zeros = Array<string>(8 - groups.length - rest.length).fill("0");
  const prefix = [...groups, ...zeros, ...rest].slice(0, 4);
  return `${prefix.map((group) => Number.parseInt(group, 16).toString(16)).join(":")}::/64`;
}

function groupsOf(part: string): string[] {
  // A dotted end is two groups; it never reaches into the first four that count.
  return part === "" ? [] : part.split(":").flatMap((group) => (group.includes(".") ? ["0", "0"] : [group]));
}
