import { isIPv6 } from "node:net";
import { ipv6Groups, mappedIPv4 } from "../base/addresses.ts";

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
  const groups = ipv6Groups(address);
  return (
    mappedIPv4(groups) ??
    `${groups
      .slice(0, 4)
      .map((group) => group.toString(16))
      .join(":")}::/64`
  );
}
