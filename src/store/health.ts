/** `degraded`: the flows run, and a condition holds. `failed`: they do not run. `stopped`: as desired. */
export type HealthState = (typeof healthStates)[number];

export const healthStates = ["starting", "healthy", "degraded", "failed", "stopped"] as const;

/** The kinds of conditions, the worst first. */
export const conditionKinds = [
  "safe_mode",
  "missing_types",
  "missing_modules",
  "not_started",
  "no_runner",
  "restarted",
  "replica_lost",
  "disk",
  "nodes_not_started",
  "nodes_failing",
] as const;

/** Why the runtime process ended. */
export type ExitReason = "blocked" | "out_of_memory" | "crashed" | "killed";

export type Condition = {
  readonly kind: (typeof conditionKinds)[number];
  /** In Unix time, as all times. */
  readonly sinceMs: number;
  readonly lastMs: number;
  /** The number of occurrences: exits, or errors of a node. */
  readonly count: number;
  readonly message: string;
  /** Why the process ended, of `restarted`. */
  readonly reason?: ExitReason | undefined;
  /** The node that it is about. */
  readonly node?:
    | {
        readonly nodeId: string;
        readonly nodeType?: string;
        readonly nodeName?: string;
        readonly flowId?: string;
        readonly flowLabel?: string;
        readonly subflowPath?: readonly string[];
      }
    | undefined;
  /** In the code of the function node, from 1. */
  readonly line?: number | undefined;
};

/** The health of the flows of one replica, or of all replicas. */
export type Health = { readonly state: HealthState; readonly conditions: readonly Condition[] };
