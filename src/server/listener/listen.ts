import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";
import type { Listener } from "./listener.ts";

/** The host that stands for the loopback addresses of both IP versions. */
const loopbackName = "localhost";

/** How many ports are tried for one that is free on both loopback addresses. */
const maxAttempts = 20;

/**
 * Listens on a port of a host; 0 takes any free port. `localhost` is 127.0.0.1 and, if the machine has it, ::1: clients try either
 * first, and another process on the same port of the other address would receive their tokens. Rejects if one of them is taken.
 * Resolves to the address, which is 127.0.0.1 for `localhost`.
 */
export async function listen(listener: Listener, host: string, port: number): Promise<AddressInfo> {
  if (host !== loopbackName) {
    return bind(listener, host, port);
  }
  for (let attempt = 1; ; attempt += 1) {
    const ipv6 = await bindIPv6(port);
    try {
      const address = await bind(listener, "127.0.0.1", ipv6 === undefined ? port : addressOf(ipv6).port);
      if (ipv6 !== undefined) {
        listener.attach(ipv6);
      }
      return address;
    } catch (error) {
      ipv6?.close();
      if (port !== 0 || !hasCode(error, "EADDRINUSE") || attempt === maxAttempts) {
        throw error;
      }
    }
  }
}

/** undefined: the machine has no IPv6 loopback address. */
async function bindIPv6(port: number): Promise<Server | undefined> {
  // Like an HTTP server.
  const server = createServer({ allowHalfOpen: true, noDelay: true });
  try {
    await bind(server, "::1", port);
    return server;
  } catch (error) {
    if (hasCode(error, "EADDRNOTAVAIL") || hasCode(error, "EAFNOSUPPORT")) {
      return undefined;
    }
    throw error;
  }
}

async function bind(server: Server, host: string, port: number): Promise<AddressInfo> {
  // Rejects with the error event.
  const listening = once(server, "listening");
  server.listen({ host, port, backlog: 4_096 });
  await listening;
  return addressOf(server);
}

function addressOf(server: Server): AddressInfo {
  return server.address() as AddressInfo;
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
