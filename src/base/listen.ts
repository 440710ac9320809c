import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";

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
    if (hasCode(error, "EADDRNOTAVAIL") || hasCode(error, "EAFNOSUPPORT")) {
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

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
