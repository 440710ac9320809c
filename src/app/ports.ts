import type { AdminAuth } from "../auth/accounts.ts";
import type { Options } from "../options/parse.ts";
import { ProtectedPorts, type WritableFolders, canFlowsWrite, endpointOf, protectServers } from "@flowgate/runtime";
import type { Store } from "../store/store.ts";

/** The listeners whose port other parts need to know. */
type ListenerName = "api" | "tools" | "metrics";

/** The ports of this service, as they become known. Flows can't connect to or listen on any of them. */
export class Ports {
  readonly protected = new ProtectedPorts();
  readonly #open = new Map<ListenerName, number>();

  /** Protects the configured ports before they are open, so that no flow takes them. */
  constructor({ port, metrics, nodeRed }: Options, listen: boolean) {
    this.protected.add(listen ? port : undefined);
    this.protected.add(metrics.port);
    this.protected.add(nodeRed.port);
  }

  /** Protects the servers that the service itself connects to. Throws if flows can create the Unix socket of one. */
  protectServers({ endpoints }: Store, { tracing, runtime }: Options): void {
    const collector = tracing === undefined ? [] : [endpointOf(tracing.endpoint)];
    protectServers(this.protected, [...endpoints, ...collector], runtime);
  }

  /**
   * Prevents flows from publishing their own keys as an issuer's, and from taking its place for sign-ins. Throws if
   * they can write the file of its keys.
   */
  protectIssuers(adminAuth: AdminAuth | undefined, folders: WritableFolders): void {
    const issuers = adminAuth?.issuers ?? [];
    const urls = issuers.flatMap(({ jwksUrl, issuer, signIn }) => [jwksUrl, signIn && issuer]);
    const endpoints = urls.flatMap((url) => (url === undefined ? [] : [endpointOf(url)]));
    protectServers(this.protected, endpoints, folders);
    const writable = issuers.find(({ jwksFile }) => jwksFile !== undefined && canFlowsWrite(folders, jwksFile));
    if (writable !== undefined) {
      throw new Error(
        `adminAuth.issuers: flows can write jwksFile of ${writable.name} (runtime.dir, runtime.allow.fileSystemWrite), and could authenticate as everyone: put it into another folder`,
      );
    }
  }

  opened(name: ListenerName, port: number): void {
    this.#open.set(name, port);
    this.protected.add(port);
  }

  /** Undefined if the listener is not open or not configured. */
  of(name: ListenerName): number | undefined {
    return this.#open.get(name);
  }
}
