import { hostname } from "node:os";
import type { Logger } from "pino";
import type { FindReplica } from "../auth/gate.ts";
import type { EventHub } from "../events/hub.ts";
import type { Journal } from "../events/journal.ts";
import { createAuthorizationReader, createReplicaKeys } from "../events/replicas/proof.ts";
import { ReplicaViews } from "../events/replicas/views.ts";
import type { Certificates } from "../server/http/certificates.ts";
import type { Implementations } from "../services/api.ts";
import { replicasService } from "../services/replicas.ts";
import type { Cluster } from "../store/cluster.ts";
import type { CredentialKeys } from "../store/credential-keys.ts";

/** The exchange of events between replicas. */
export type ReplicaEvents = {
  readonly views: ReplicaViews;
  /** The service that the other replicas call. */
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

/** The name of this replica for operators; without a port, it is the only one of its process. */
export function replicaName(port: number | undefined): string {
  return `${hostname()}:${port ?? `process ${process.pid}`}`;
}
