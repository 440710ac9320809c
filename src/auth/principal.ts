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
  /** The peer's IP address. */
  readonly address: string;
  /** Stands in the log with whatever this request caused. */
  readonly requestId: string;
};

export const peerKey = createContextKey<Peer>({ address: "", requestId: "" }, { description: "peer" });
