import { once } from "node:events";
import { type AddressInfo, BlockList, type Server, createServer, isIP } from "node:net";
import { hasCode } from "./error-code.ts";

/** True if a host is `localhost`, in 127.0.0.0/8 (also if mapped into IPv6), or ::1. */
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

/** The host of a URL, without the brackets of an IPv6 address. */
export function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, "$1");
}

/** True if what is sent to a URL can be neither read nor changed on its way: over TLS, or on this machine. Without user and password. */
export function isConfidentialUrl(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || url.username !== "" || url.password !== "") {
    return false;
  }
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopback(hostOf(url)));
}

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

/** The host that stands for the loopback addresses of both IP versions. */
const loopbackName = "localhost";

/** How many ports are tried for one that is free on both loopback addresses. */
const maxAttempts = 20;

/** Pending connections of a socket, up to the limit of the system. */
const backlog = 4_096;

/**
 * Listens on a port of a host; 0 takes any free port. `localhost` is 127.0.0.1 and, if the machine has it, ::1: clients try either
 * first, and another process on the same port of the other address would receive what is meant for this one.
 *
 * Resolves to the server for ::1, whose connections the caller has to take, and which it has to close; undefined if there is none.
 * Rejects with the error of Node, which has `code`, `address` and `port`, if one of the addresses can't be taken.
 */
export async function listen(server: Server, host: string, port: number): Promise<Server | undefined> {
  if (host !== loopbackName) {
    await open(server, host, port);
    return undefined;
  }
  for (let attempt = 1; ; attempt += 1) {
    const ipv6 = await openIPv6(port);
    try {
      await open(server, "127.0.0.1", ipv6 === undefined ? port : addressOf(ipv6).port);
      return ipv6;
    } catch (error) {
      ipv6?.close();
      if (port !== 0 || !hasCode(error, "EADDRINUSE") || attempt === maxAttempts) {
        throw error;
      }
    }
  }
}

/** Where a server listens. */
export function addressOf(server: Server): AddressInfo {
  return server.address() as AddressInfo;
}

/** undefined: the machine has no IPv6 loopback address. */
async function openIPv6(port: number): Promise<Server | undefined> {
  // Like an HTTP server.
  const server = createServer({ allowHalfOpen: true, noDelay: true });
  try {
    await open(server, "::1", port);
    return server;
  } catch (error) {
    if (hasCode(error, "EADDRNOTAVAIL", "EAFNOSUPPORT")) {
      return undefined;
    }
    throw error;
  }
}

async function open(server: Server, host: string, port: number): Promise<void> {
  // Rejects with the error event.
  const listening = once(server, "listening");
  server.listen({ host, port, backlog });
  await listening;
}
