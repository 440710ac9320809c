import { isIPv6 } from "node:net";

/** Where a client connects from: over TCP, over the Unix socket, or as the flow runtime of this service. */
export type ClientKind = "network" | "socket" | "runtime";

/**
 * The key under which a client is counted: an IPv4 address, also if mapped into IPv6, or the /64 of an IPv6 address,
 * since a single host usually controls a whole /64.
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
  const tailGroups = tail === undefined ? [] : groupsOf(tail);
  const zeros = Array<string>(8 - groups.length - tailGroups.length).fill("0");
  const prefix = [...groups, ...zeros, ...tailGroups].slice(0, 4);
  return `${prefix.map((group) => Number.parseInt(group, 16).toString(16)).join(":")}::/64`;
}

function groupsOf(part: string): string[] {
  // A dotted suffix stands for two groups, which are never among the first four.
  return part === "" ? [] : part.split(":").flatMap((group) => (group.includes(".") ? ["0", "0"] : [group]));
}
