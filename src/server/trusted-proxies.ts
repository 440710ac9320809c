import { BlockList, isIP } from "node:net";
import type { FastifyRequest } from "fastify";

type Subnet = { readonly address: string; readonly prefix: number; readonly family: "ipv4" | "ipv6" };

/** Reads an address, or a subnet such as 10.0.0.0/8. undefined where it is neither, or is everyone (`/0`). */
export function parseSubnet(text: string): Subnet | undefined {
  const [, address = "", length] = /^([^/%]+)(?:\/([1-9]\d{0,2}))?$/.exec(text) ?? [];
  const version = isIP(address);
  const bits = version === 6 ? 128 : 32;
  const prefix = length === undefined ? bits : Number(length);
  return version === 0 || prefix > bits ? undefined : { address, prefix, family: version === 6 ? "ipv6" : "ipv4" };
}

/** Whether the address of a peer is one of these. An IPv4 address counts also where it is mapped into IPv6. */
export function createTrust(subnets: readonly string[]): (address: string | undefined) => boolean {
  if (subnets.length === 0) {
    return () => false;
  }
  const trusted = new BlockList();
  for (const text of subnets) {
    const subnet = parseSubnet(text);
    if (subnet === undefined) {
      throw new TypeError("trustedProxies: must be addresses or subnets");
    }
    trusted.addSubnet(subnet.address, subnet.prefix, subnet.family);
  }
  return (address = "") => {
    const [plain = ""] = address.split("%", 1);
    const version = isIP(plain);
    return version !== 0 && trusted.check(plain, version === 6 ? "ipv6" : "ipv4");
  };
}

/**
 * Where a request comes from: the nearest address in X-Forwarded-For that is no trusted proxy's, and without
 * trusted proxies the peer's. Some proxies write a port behind it; what is no address at all counts for nothing.
 */
export function clientAddress({ ip, socket }: Pick<FastifyRequest, "ip" | "socket">): string {
  // Fastify gives none where the connection has gone.
  const given = (ip as string | undefined) ?? "";
  if (isIP(given) !== 0) {
    return given;
  }
  const [, address = ""] = /^\[?([^\]]+?)\]?(?::\d{1,5})?$/.exec(given) ?? [];
  return isIP(address) === 0 ? (socket.remoteAddress ?? "") : address;
}
