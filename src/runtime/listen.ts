import { once } from "node:events";
import type { Server } from "node:http";
import { type AddressInfo, type Server as NetServer, createServer } from "node:net";

export type Listening = { readonly port: number; close(): void };

/** Why an address can't be listened on. */
export class ListenError extends Error {
  readonly address: string;
  readonly code: string;

  constructor(address: string, { code, message }: NodeJS.ErrnoException) {
    super(message);
    this.name = "ListenError";
    this.address = address;
    this.code = code ?? message;
  }
}

/** IPv6, or its loopback address, is not configured. */
const absent = new Set(["EADDRNOTAVAIL", "EAFNOSUPPORT"]);

/** A free port of one loopback address is rarely in use on the other. */
const maxAttempts = 20;

/**
 * Opens the port of a server; 0 selects a free one. `localhost` is both loopback addresses, because clients that connect to this
 * name try either first: nothing else may listen there. Rejects with a ListenError.
 */
export async function listen(server: Server, host: string, port: number): Promise<Listening> {
  if (host !== "localhost") {
    await open(server, host, port);
    return { port: portOf(server), close: () => void server.close() };
  }
  for (let attempt = 1; ; attempt += 1) {
    await open(server, "127.0.0.1", port);
    const second = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => server.emit("connection", socket));
    try {
      await open(second, "::1", portOf(server));
    } catch (error) {
      if (!(error instanceof ListenError)) throw error;
      if (absent.has(error.code)) return { port: portOf(server), close: () => void server.close() };
      if (port !== 0 || error.code !== "EADDRINUSE" || attempt === maxAttempts) throw error;
      server.close();
      await once(server, "close");
      continue;
    }
    return {
      port: portOf(server),
      close() {
        server.close();
        second.close();
      },
    };
  }
}

async function open(server: NetServer, host: string, port: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const fail = (error: Error) => reject(new ListenError(host, error));
  server.once("error", fail);
  server.listen({ host, port, ipv6Only: host === "::1" }, resolve);
  await promise;
  server.off("error", fail);
}

function portOf(server: NetServer): number {
  return (server.address() as AddressInfo).port;
}
