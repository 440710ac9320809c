import { type ProtocolDetector, sniff } from "./sniff.ts";

/** Limits of connections and requests. Beyond them, a request is rejected or the connection is closed. */
export type ListenerLimits = {
  connections: number;
  /** Concurrent connections of one client: an IPv4 address, or an IPv6 /64. */
  connectionsPerSource: number;
  /** Concurrent calls on one connection: HTTP/2 streams, or pipelined HTTP/1 requests. */
  callsPerConnection: number;
  /** Size of a request header; for HTTP/2 as defined by SETTINGS_MAX_HEADER_LIST_SIZE (RFC 9113, section 6.5.2). */
  headerBytes: number;
  /** Number of header fields; for HTTP/2 including pseudo-header fields. */
  headerFields: number;
  /** Time until the protocol of a connection is detected: TLS handshake and first bytes, for HTTP/2 also SETTINGS. */
  firstByteTimeoutMs: number;
  headersTimeoutMs: number;
  /** Time for a whole request to arrive, including its body, unless the response has begun. */
  requestTimeoutMs: number;
  /**
   * Time without calls after which a connection is closed. Longer than the idle timeout of load balancers (60 s), so
   * that they close first.
   */
  idleTimeoutMs: number;
  /**
   * The time for which a request body or response may be transferred slower than `minBytesPerSecond` because of the
   * client.
   */
  stallTimeoutMs: number;
  /**
   * The time for which flow control may block the HTTP/2 response to a caller without a valid token or identity. A
   * fifth of it applies while calls are rejected because too many are in flight.
   */
  anonymousStallTimeoutMs: number;
  /** 0: one byte per `stallTimeoutMs` is enough. */
  minBytesPerSecond: number;
  /** Age at which a connection stops taking new calls, varied randomly by ±10 %. undefined: never. */
  connectionAgeMs: number | undefined;
};

export type ListenerOptions = ListenerLimits & {
  isUnixSocket: boolean;
  /** Aborted when draining begins: HTTP/1 responses then close their connections. */
  drainSignal: AbortSignal;
  /** The time that close() waits for calls in flight before it closes their connections. */
  closeGraceMs: number;
  /** Called during close() when clients were notified that their connections close. Idle streams may be ended then. */
  onClientsNotified: () => void;
  /** Called during close() with the number of connections that were closed with calls in flight. */
  onForcedClose: (connections: number) => void;
  /** Detects the protocol of a connection. Defaults to the first bytes, without TLS. */
  detectProtocol: ProtocolDetector;
  /** True if this address is a proxy, which connects for many clients and is exempt from `connectionsPerSource`. */
  isProxy: (address: string | undefined) => boolean;
  /** Called at start-up for each feature that is off because this version of Node lacks an internal that it needs. */
  onDegraded: (message: string) => void;
  /** Called with the status of each response to bytes that are not a valid request. */
  onMalformed: (status: number) => void;
  /** Called each time that a connection or a call is ended because of a limit. */
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
  anonymousStallTimeoutMs: 5_000,
  minBytesPerSecond: 240,
  connectionAgeMs: undefined,
  isUnixSocket: false,
  drainSignal: new AbortController().signal,
  closeGraceMs: 10_000,
  onClientsNotified: () => {},
  onForcedClose: () => {},
  detectProtocol: sniff,
  isProxy: () => false,
  onDegraded: () => {},
  onMalformed: () => {},
  onLimit: () => {},
};
