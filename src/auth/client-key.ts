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
  const [head = "", tail] = address.replace(/%.*$/, "").split("::");
  const groups = groupsOf(head);
  const tailGroups = tail === undefined ? [] : groupsOf(tail);
  const zeros = Array<number>(8 - groups.length - tailGroups.length).fill(0);
  const all = [...groups, ...zeros, ...tailGroups];
  const [high = 0, low = 0] = all.slice(6);
  return all.slice(0, 6).join(" ") === "0 0 0 0 0 65535"
    ? [high >> 8, high & 255, low >> 8, low & 255].join(".")
    : `${all
        .slice(0, 4)
        .map((group) => group.toString(16))
        .join(":")}::/64`;
}

function groupsOf(part: string): number[] {
  return part === ""
    ? []
    : part.split(":").flatMap((group) => (group.includes(".") ? wordsOf(group) : [Number.parseInt(group, 16)]));
}

/** A dotted suffix stands for two groups. */
function wordsOf(dotted: string): number[] {
  const [first = 0, second = 0, third = 0, fourth = 0] = dotted.split(".").map(Number);
  return [first * 256 + second, third * 256 + fourth];
}
