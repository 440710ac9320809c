import { BlockList, isIPv6 } from "node:net";
import type { SystemCall } from "./strace.ts";

export const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8);
loopback.addAddress("::1", "ipv6");

/** The system calls that name the address of another host. */
export const addressing = ["connect", "sendto", "sendmsg", "sendmmsg"];

/** Lists the addresses of the internet that the calls name, and that are not permitted. */
export function findForeignAddresses(calls: readonly SystemCall[], permitted: BlockList): string[] {
  const addresses = calls.flatMap(({ text }) => [...readAddresses(text)]);
  return [...new Set(addresses)].filter((address) => !permitted.check(address, isIPv6(address) ? "ipv6" : "ipv4"));
}

/** The addresses in a line of strace. */
export function readAddresses(text: string): string[] {
  const matches = text.matchAll(/inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)"/g);
  return [...matches].map(([, ipv4, ipv6]) => ipv4 ?? ipv6 ?? "");
}
