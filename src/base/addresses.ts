import { BlockList, isIP } from "node:net";

/** Whether a host is `localhost`, in 127.0.0.0/8 (also if mapped into IPv6), or ::1. */
export function isLoopback(host: string): boolean {
  if (host === "localhost") {
    return true;
  }
  const version = isIP(host);
  return version !== 0 && loopback.check(host, version === 6 ? "ipv6" : "ipv4");
}

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addAddress("::1", "ipv6");

/** The eight groups of a valid IPv6 address, in any of its spellings, without its zone. */
export function ipv6Groups(address: string): number[] {
  const [head = "", tail] = address.replace(/%.*$/, "").split("::");
  const [first, last] = [groupsOf(head), tail === undefined ? [] : groupsOf(tail)];
  return [...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last];
}

/** The IPv4 address that is mapped into these groups (RFC 4291, section 2.5.5.2); undefined if there is none. */
export function mappedIPv4(groups: readonly number[]): string | undefined {
  const [high = 0, low = 0] = groups.slice(6);
  return groups.slice(0, 6).join(" ") === "0 0 0 0 0 65535"
    ? [high >> 8, high & 255, low >> 8, low & 255].join(".")
    : undefined;
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
