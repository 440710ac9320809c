import { isIPv6 } from "node:net";
import { type HandlerContext, createContextKey } from "@connectrpc/connect";
import { ipv6Groups, mappedIPv4 } from "@flowgate/base/addresses";
import type { Caller } from "@flowgate/base/shared-threads";
import type { Origin } from "../store/audit-store.ts";

export type Principal = {
  /** undefined: the caller is not authenticated. */
  readonly username: string | undefined;
  readonly token?: Origin["token"];
  /** The user's permissions, restricted to the token's scope: "*", "read", or names such as "flows.write". */
  readonly permissions: readonly string[];
};

/** Set by the gate, before interceptors and implementations run. */
export const principalKey = createContextKey<Principal>(
  { username: undefined, permissions: [] },
  { description: "principal" },
);

/** The client of a call. Set by the server. */
export type Peer = {
  readonly address: string;
  /** The request target, with the query. Absent: to be read from the URL of the call. */
  readonly target?: string;
  /** The Authorization header; null: there is none. Absent: to be read from the headers of the call. */
  readonly authorization?: string | null;
  /** The session of a browser. Absent: there is none, or there is an Authorization header, which takes precedence. */
  readonly session?: BrowserSession | undefined;
  /** Logged with every event that this request causes. */
  readonly requestId: string;
  /**
   * Returns the verified SPIFFE ID of the calling workload; undefined if there is none. Throws `invalid_identity` if the
   * certificate or header is invalid. Absent: workloads are not identified.
   */
  readonly workload?: (() => string | undefined) | undefined;
  /**
   * Called before a document of so many bytes is loaded for the response, which the client may read slowly. A promise resolves when
   * there is memory for it, and rejects with `overloaded` if that takes too long. Absent: memory is not limited.
   */
  reserveDocument?(bytes: number): Promise<void> | undefined;
  /**
   * Keeps the memory that the call has reserved until the returned function is called, also if the client disconnects before. Absent:
   * memory is not limited.
   */
  retainMemory?(): () => void;
  /** Called when a deployment is decoded and its body is not needed any more, with the bytes of its document. */
  documentDecoded?(bytes: number): void;
  /** The format of the messages of an RPC; of no meaning for calls over REST. Absent: binary. */
  readonly messageFormat?: "proto" | "json";
  /** Set while the service is overloaded, so that only callers with an identity are admitted: returns the error for others. */
  readonly overloaded?: (() => Error) | undefined;
  /** The transport of the client. Absent: TCP. */
  readonly clientKind?: ClientKind;
  /** Called by the gate when the caller has an identity. */
  authenticated?(): void;
};

export interface BrowserSession {
  readonly value: string;
  /**
   * Throws `foreign_origin` if a page of another origin may have sent the request. `isChange`: the request must also have a header that
   * such pages can't send.
   */
  assertOwnPage(isChange: boolean): void;
}

export const peerKey = createContextKey<Peer>({ address: "", requestId: "" }, { description: "peer" });

/** Returns the origin of a call. `principal` is the one that the gate has set, or refused. */
export function originOf(
  { values, protocolName }: Pick<HandlerContext, "values" | "protocolName">,
  principal = values.get(principalKey),
): Origin {
  const { address, requestId } = values.get(peerKey);
  return {
    by: principal.username,
    token: principal.token,
    address,
    // The gateway's name of REST.
    protocol: protocolName === "http" ? "rest" : protocolName,
    requestId,
  };
}

/** The caller for whom a call uses shared threads: callers without an identity take turns by address. */
export function callerOf({ values, signal }: Pick<HandlerContext, "values" | "signal">): Caller {
  const { username } = values.get(principalKey);
  const source = username === undefined ? `client ${clientKeyOf(values.get(peerKey).address)}` : `user ${username}`;
  return { source, signal };
}

/** The transport of a client: TCP, or the Unix socket. */
export type ClientKind = "network" | "socket";

/**
 * The key under which a client is counted: an IPv4 address, plain or mapped into IPv6, or the /64 of an IPv6 address,
 * since a single host usually controls a whole /64.
 */
export function clientKeyOf(address: string): string {
  if (!address.includes(":") || !isIPv6(address)) {
    return address;
  }
  const groups = ipv6Groups(address);
  return (
    mappedIPv4(groups) ??
    `${groups
      .slice(0, 4)
      .map((group) => group.toString(16))
      .join(":")}::/64`
  );
}
