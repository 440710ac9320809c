import { networkInterfaces } from "node:os";
import { isIP } from "node:net";
import type { Logger } from "pino";
import type { FindReplica } from "../auth/gate.ts";
import type { EventHub } from "../live/hub.ts";
import type { Journal } from "../live/journal.ts";
import { createAuthorizationReader, createReplicaKeys } from "../live/replicas/proof.ts";
import { ReplicaViews } from "../live/replicas/views.ts";
import type { Options } from "../options/parse.ts";
import type { Certificates } from "../server/http/certificates.ts";
import type { Server } from "../server/open-server.ts";
import type { Implementations } from "../services/api.ts";
import { replicasService } from "../services/replicas.ts";
import type { Cluster } from "../store/cluster.ts";
import type { CredentialKeys } from "../store/credential-keys.ts";

/** How replicas exchange their events. */
export type ReplicaEvents = {
  readonly views: ReplicaViews;
  /** What the others call. */
  readonly service: Implementations["replicas"];
  /** Authenticates their calls. */
  readonly findReplica: FindReplica;
};

type ReplicaEventsOptions = {
  readonly hub: EventHub;
  readonly journal: Journal;
  readonly cluster: Cluster;
  /** The keys whose secrets replicas share. */
  readonly credentialKeys: CredentialKeys;
  readonly certificates: Certificates | undefined;
  readonly log: Logger;
};

export function createReplicaEvents(options: ReplicaEventsOptions): ReplicaEvents & Disposable {
  const { hub, journal, cluster, certificates, log } = options;
  const keys = createReplicaKeys(options.credentialKeys);
  const views = new ReplicaViews({
    hub,
    journal,
    cluster,
    log,
    async connect({ id }) {
      const { openReplicaConnection } = await import("./replica-connection.ts");
      const replica = cluster.replicas().find((each) => each.id === id);
      return openReplicaConnection({ cluster, keys, certificates }, { id, ...replica });
    },
  });
  return {
    views,
    service: replicasService({ hub, keys }),
    findReplica: createAuthorizationReader(keys, cluster.id),
    [Symbol.dispose]: () => views[Symbol.dispose](),
  };
}

/** The URL at which other replicas reach this one; undefined: they can't. */
export function replicaAddress(
  { live: { address }, host }: Pick<Options, "live" | "host">,
  { url }: Pick<Server, "url">,
): string | undefined {
  if (address !== undefined || url === "") {
    return address;
  }
  const own = new URL(url);
  if (host === "0.0.0.0" || host === "::") {
    const external = findExternalAddress(host === "0.0.0.0");
    own.hostname = external ?? own.hostname;
  } else if (isIP(host) === 0 && host !== "localhost") {
    own.hostname = host;
  }
  return own.origin;
}

/** An address of this machine that others may reach. */
function findExternalAddress(isOnlyIPv4: boolean): string | undefined {
  const all = Object.values(networkInterfaces())
    .flatMap((entries) => entries ?? [])
    .filter(({ internal, address }) => !internal && !/^(?:169\.254\.|fe80:)/i.test(address));
  const found = all.find(({ family }) => family === "IPv4") ?? (isOnlyIPv4 ? undefined : all[0]);
  return found && (found.family === "IPv6" ? `[${found.address}]` : found.address);
}

/** The first certificate of a chain. */
export function leafOf(certificates: Certificates | undefined): string | undefined {
  return /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/.exec(
    String(certificates?.current().cert ?? ""),
  )?.[0];
}
