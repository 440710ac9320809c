import { lookup } from "node:dns/promises";
import { BlockList, isIP } from "node:net";
import { networkInterfaces } from "node:os";
import { hostOf, isLoopback } from "@flowgate/base/addresses";
import { createListeners } from "@flowgate/base/listeners";
import { type WritableFolders, canFlowsWrite } from "./writable-folders.ts";

/** The ports that flows can't connect to or listen on: those of the service, and of servers on this machine that it uses. */
export class ProtectedPorts {
  readonly #ports = new Set<number>();
  readonly #additions = createListeners<number>();

  all(): readonly number[] {
    return [...this.#ports];
  }

  /** Adds a port that has become known; 0 and undefined are ignored. */
  add(port = 0): void {
    if (port === 0 || this.#ports.has(port)) {
      return;
    }
    this.#ports.add(port);
    this.#additions.notify(port);
  }

  /** Calls the listener with each further port. Disposing ends the subscription. */
  onAdded(listener: (port: number) => void): Disposable {
    return this.#additions.add(listener);
  }
}

/** Where a server listens: a TCP port, or a Unix socket in a folder. */
export type Endpoint = { readonly host: string; readonly port: number } | { readonly socketFolder: string };

/** Where the server of an http or https URL listens. */
export function endpointOf(url: string): Endpoint {
  const parsed = new URL(url);
  const { protocol, port } = parsed;
  const defaultPort = protocol === "https:" ? 443 : 80;
  return { host: hostOf(parsed), port: port === "" ? defaultPort : Number(port) };
}

/**
 * Keeps flows from the servers that the service sends secrets to or receives keys from, since a flow could take the place of one while
 * it restarts: adds their ports, if they are on this machine. Throws if flows can create the Unix socket of a server.
 */
export function protectServers(ports: ProtectedPorts, endpoints: readonly Endpoint[], folders: WritableFolders): void {
  for (const endpoint of endpoints) {
    if ("port" in endpoint) {
      void protectServer(ports, endpoint.host, endpoint.port);
    } else if (canFlowsWrite(folders, endpoint.socketFolder)) {
      throw new Error(
        "store: flows can write to the folder of the database's Unix socket (runtime.dir, runtime.allow.fileSystemWrite), and could take its place: let the database create its socket in another folder",
      );
    }
  }
}

/** An address is checked at once, a name when it is resolved. */
async function protectServer(ports: ProtectedPorts, host: string, port: number): Promise<void> {
  if (isOwnAddress(host)) {
    ports.add(port);
  }
  if (isIP(host) !== 0 || host === "localhost") {
    return;
  }
  // A name that can't be resolved is not that of this machine.
  const addresses = await lookup(host, { all: true }).catch(() => []);
  if (addresses.some(({ address }) => isOwnAddress(address))) {
    ports.add(port);
  }
}

function isOwnAddress(host: string): boolean {
  const family = isIP(host);
  if (family === 0 || isLoopback(host)) {
    return isLoopback(host);
  }
  const own = new BlockList();
  const interfaces = Object.values(networkInterfaces()).flatMap((entries) => entries ?? []);
  for (const address of ["0.0.0.0", "::", ...interfaces.map((entry) => entry.address)]) {
    own.addAddress(address, isIP(address) === 6 ? "ipv6" : "ipv4");
  }
  return own.check(host, family === 6 ? "ipv6" : "ipv4");
}
