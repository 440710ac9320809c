import { createContextKey } from "@connectrpc/connect";

/** Who makes a call, and what they may do now. */
export type Principal = {
  /** undefined where no one is authenticated. */
  readonly username: string | undefined;
  /** As configured and narrowed by the token's scope: "*", "read", or names such as "flows.write". */
  readonly permissions: readonly string[];
};

/** Set by the gate, before interceptors and implementations run. */
export const principalKey = createContextKey<Principal>(
  { username: undefined, permissions: [] },
  { description: "principal" },
);

/** The connection that a call came over. Set by the server. */
export type Peer = {
  /** The client's IP address; behind a trusted proxy the one that it tells. */
  readonly address: string;
  /** The Authorization header; null: there is none. Absent: the call's own headers say it. */
  readonly authorization?: string | null;
  /** Stands in the log with whatever this request caused. */
  readonly requestId: string;
  /**
   * The SPIFFE ID of the workload that calls; undefined where nothing vouches for one. Throws
   * `invalid_identity` where what came can't be relied on. Absent: workloads are not told apart.
   */
  readonly workload?: (() => string | undefined) | undefined;
};

export const peerKey = createContextKey<Peer>({ address: "", requestId: "" }, { description: "peer" });
