import type { Health } from "./health.ts";

export type ReplicaRun = {
  readonly rev: string;
  /** The sequence number of the revision. */
  readonly seq: number;
  /** As `DeploymentResult.outcome`; `pending` while the flows are being started. */
  readonly outcome: "pending" | "running" | "degraded" | "failed" | "stopped";
  readonly message: string | undefined;
  readonly missingTypes: readonly string[];
};

export type ReplicaStatus = {
  /** The name for operators, such as the name of the pod. */
  readonly name: string;
  readonly version: string;
  /** `runtime.mode` of its options. */
  readonly mode: "each" | "one" | "none";
  /** The state of its runtime. */
  readonly state: string;
  readonly run: ReplicaRun | undefined;
  /** The health of its flows. Absent: it has an older version. */
  readonly health?: Health | undefined;
  /** The URL at which the others reach it; undefined: they can't. */
  readonly address?: string | undefined;
  /** The certificate that it presents there, in PEM format; undefined: without TLS, or one that a public authority has issued. */
  readonly certificate?: string | undefined;
  /** The sequence number of a revision for which node types or modules are missing on this replica. Kept in standby. */
  readonly incompleteSeq?: number | undefined;
  /** True if it has read last that the flows are to be stopped. Absent: they are to run. */
  readonly isStopped?: boolean;
  /** The ids of the keys of credentials that it knows, which the cluster adds. Absent: of an older version, which knows only one. */
  readonly keys?: readonly string[];
};

export type Replica = ReplicaStatus & {
  /** Random, for each start of a process. */
  readonly id: string;
  readonly isSelf: boolean;
  /** The time since its last heartbeat. */
  readonly seenMsAgo: number;
};

/** A process that has not been heard of within the last hour, and has not ended by itself. */
export type LostReplica = {
  readonly name: string;
  /** The time of its last heartbeat, in Unix time. */
  readonly lastMs: number;
};

export type LeaseReply =
  /** `token` increases with each change of the holder, and when a standby of the database was promoted. */
  | { readonly isHeld: true; readonly token: number }
  /** Another replica holds it, and it ends after this time unless it is renewed. */
  | { readonly isHeld: false; readonly forMs: number };

/** The right of one replica at a time to run the flows. */
export interface Lease {
  /**
   * Acquires the lease, or renews it, for `durationMs` from a moment between call and reply. Resolves with `isHeld:
   * false` if another replica holds it. Times are by the database's clock.
   */
  hold(durationMs: number): Promise<LeaseReply>;
  /** Ends the lease at once if this replica holds it, so that another one can acquire it. */
  release(): Promise<void>;
}

export interface Cluster {
  /** The `Replica.id` of this process. */
  readonly id: string;
  /** Reports the status to the others, now and periodically from then on. After a failure it is retried; nothing is thrown. */
  report(status: ReplicaStatus): void;
  /**
   * The replicas whose last heartbeat is at most some seconds old, this one included after its first report. From memory, which
   * is at most about half a second old while the store is usable.
   */
  replicas(): readonly Replica[];
  /** The replicas missing from `replicas` for some seconds, until one of the same name appears. */
  lost(): readonly LostReplica[];
  /**
   * Calls the listener when `replicas` has changed in more than `seenMsAgo`, and when another replica has released the lease.
   * Disposing ends the subscription.
   */
  onChange(listener: () => void): Disposable;
  readonly lease: Lease;
}
