import { type ProtocolDetector, sniff } from "./sniff.ts";

/** What a client may take of the server. Whoever goes beyond is refused, or loses the connection. */
export type ListenerLimits = {
  /** Connections at once, of all clients. */
  connections: number;
  /** Connections at once of one source: an IPv4 address, or of IPv6 a /64. */
  connectionsPerSource: number;
  /** Calls at once on one connection: HTTP/2 streams, or HTTP/1 requests that were sent ahead. */
  callsPerConnection: number;
  /** The header of a request, in bytes; of HTTP/2 as RFC 9113, section 6.5.2, counts them. */
  headerBytes: number;
  /** The fields of a header; of HTTP/2 with the pseudo-header fields. */
  headerFields: number;
  /** How long a connection may take to show its protocol: its first bytes, or all that HTTP/2 begins with. */
  firstByteTimeoutMs: number;
  /** How long the header of a request may take. */
  headersTimeoutMs: number;
  /** How long a whole request may take, its body included, unless its answer has begun. */
  requestTimeoutMs: number;
  /** How long a connection may idle. Longer than load balancers wait (60 s), so that they close first. */
  idleTimeoutMs: number;
  /** How long a body or an answer may move slower than `minBytesPerSecond`, while the other side waits for it. */
  stallTimeoutMs: number;
  /** 0: one byte in `stallTimeoutMs` is enough. */
  minBytesPerSecond: number;
  /** HTTP/2 streams that a client may give up, in the long run; at once, it may ten times as many. */
  resetsPerSecond: number;
  /** HTTP/2 frames of a connection that make no sense, empty DATA among them. */
  invalidFrames: number;
  /**
   * Bytes of an HTTP/2 connection that are neither header nor body, in the long run: PING, SETTINGS, PRIORITY,
   * WINDOW_UPDATE, padding, refused headers; at once, it may a minute's worth.
   */
  overheadBytesPerSecond: number;
  /** After so long, give or take a tenth, a connection takes no new calls. undefined: never. */
  connectionAgeMs: number | undefined;
};

export type ListenerOptions = ListenerLimits & {
  /** Aborted when clients had better move: HTTP/1 answers then end their connections. */
  leaving: AbortSignal;
  /** How long close() waits for calls in flight before it ends their connections. */
  closeGraceMs: number;
  /** Told by close() when clients know that their connections end: calls that only wait may be ended now. */
  onTold: () => void;
  /** Told by close() how many connections it ended with calls in flight. */
  onCut: (connections: number) => void;
  /** How a connection's protocol is found out; without TLS, by its first bytes. */
  decide: ProtocolDetector;
  /** Whether the peer of this address connects for many clients: `connectionsPerSource` is not for it. */
  isProxy: (address: string | undefined) => boolean;
  /** A feature is off, because this version of Node lacks an internal that it needs. Called at start-up. */
  onDegraded: (message: string) => void;
  /** Something that is no request, and interrupted none, was answered with this status. */
  onMalformed: (status: number) => void;
  /** Told each time that a connection or a call was ended because of a limit. */
  onLimit: (limit: keyof ListenerLimits) => void;
};

export const listenerDefaults: ListenerOptions = {
  connections: 10_000,
  connectionsPerSource: 1_000,
  callsPerConnection: 250,
  headerBytes: 16 * 1024,
  headerFields: 128,
  firstByteTimeoutMs: 10_000,
  headersTimeoutMs: 20_000,
  requestTimeoutMs: 300_000,
  idleTimeoutMs: 72_000,
  stallTimeoutMs: 30_000,
  minBytesPerSecond: 240,
  resetsPerSecond: 100,
  invalidFrames: 1_000,
  overheadBytesPerSecond: 64 * 1024,
  connectionAgeMs: undefined,
  leaving: new AbortController().signal,
  closeGraceMs: 10_000,
  onTold: () => {},
  onCut: () => {},
  decide: sniff,
  isProxy: () => false,
  onDegraded: () => {},
  onMalformed: () => {},
  onLimit: () => {},
};
