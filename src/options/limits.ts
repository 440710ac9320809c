import * as z from "zod";
import { listenerDefaults } from "../server/listener/options.ts";
import { milliseconds, wholeNumber } from "./values.ts";

/** The defaults are those of the listener. */
const connectionLimits = {
  connections: wholeNumber(1, 1_000_000)
    .default(listenerDefaults.connections)
    .describe("Maximum number of concurrent connections; further ones are reset."),
  connectionsPerSource: wholeNumber(1, 1_000_000)
    .default(listenerDefaults.connectionsPerSource)
    .describe(
      "Maximum number of concurrent connections per client (IPv4 address or IPv6 /64); further ones are reset. `trustedProxies` are exempt.",
    ),
  callsPerConnection: wholeNumber(1, 1_000_000)
    .default(listenerDefaults.callsPerConnection)
    .describe("Maximum number of concurrent calls per connection: HTTP/2 streams, or pipelined HTTP/1.1 requests."),
  headerBytes: wholeNumber(1024, 65_536)
    .default(listenerDefaults.headerBytes)
    .describe("Maximum size of a request header; larger ones are rejected with 431, over HTTP/2 with a stream reset."),
  headerFields: wholeNumber(8, 10_000)
    .default(listenerDefaults.headerFields)
    .describe("Maximum number of fields in a request header; more are rejected like a larger header."),
  firstByteTimeoutMs: milliseconds
    .default(listenerDefaults.firstByteTimeoutMs)
    .describe(
      "Time until a connection has completed its TLS handshake and sent its first bytes, over HTTP/2 preface and SETTINGS.",
    ),
  headersTimeoutMs: milliseconds
    .default(listenerDefaults.headersTimeoutMs)
    .describe("Time for a request header to arrive."),
  requestTimeoutMs: milliseconds
    .default(listenerDefaults.requestTimeoutMs)
    .describe(
      "Time for a whole request to arrive, including its body, unless its response has begun; also the time to send one chunk of a response.",
    ),
  idleTimeoutMs: milliseconds
    .default(listenerDefaults.idleTimeoutMs)
    .describe(
      "Time without calls after which a connection is closed. Should be longer than that of proxies in front, so that they close first.",
    ),
  stallTimeoutMs: milliseconds
    .default(listenerDefaults.stallTimeoutMs)
    .describe(
      "How long a request body, or the client's receipt of a response, may be slower than `minBytesPerSecond`.",
    ),
  minBytesPerSecond: wholeNumber(0, 1_000_000)
    .default(listenerDefaults.minBytesPerSecond)
    .describe("The minimum throughput, checked by `stallTimeoutMs`; 0: a single byte is enough."),
  resetsPerSecond: wholeNumber(1, 1_000_000)
    .default(listenerDefaults.resetsPerSecond)
    .describe(
      "Average rate at which a client may reset HTTP/2 streams, with bursts of ten times as many. Beyond this or the next two limits, its connection is closed.",
    ),
  invalidFrames: wholeNumber(1, 1_000_000)
    .default(listenerDefaults.invalidFrames)
    .describe("Maximum number of invalid HTTP/2 frames on a connection, such as empty DATA frames."),
  overheadBytesPerSecond: wholeNumber(1, 1_000_000_000)
    .default(listenerDefaults.overheadBytesPerSecond)
    .describe(
      "Average rate of HTTP/2 control traffic from a client (PING, SETTINGS, WINDOW_UPDATE, padding), with bursts of one minute's worth.",
    ),
  connectionAgeMs: milliseconds
    .optional()
    .describe(
      "Age (±10 %) at which a connection is closed after its current calls, so that load is rebalanced. Absent: never.",
    ),
};

export const limits = z
  .strictObject({
    bodyBytes: wholeNumber(1, 1_073_741_824)
      .default(16_777_216)
      .describe("Maximum size of a request body after decompression; larger ones are rejected with 413."),
    inFlight: wholeNumber(0, 1_000_000)
      .default(1000)
      .describe(
        "Maximum number of concurrent unary calls, and separately of concurrent streams; further ones are rejected with 503. 0: unlimited.",
      ),
    inFlightPerSource: wholeNumber(0, 1_000_000)
      .default(250)
      .describe("The same limit per client (IPv4 address or IPv6 /64). `trustedProxies` are exempt. 0: as `inFlight`."),
    eventLoopDelayMs: wholeNumber(0, 60_000)
      .default(500)
      .describe("Average event loop delay above which calls are rejected with 503. 0: unlimited."),
    deadlineMs: milliseconds
      .default(3_600_000)
      .describe(
        "The longest deadline that a call can set; longer ones are reduced to this. Calls without a deadline have none.",
      ),
    ...connectionLimits,
  })
  .prefault({});
