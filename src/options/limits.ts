import * as z from "zod";
import { listenerDefaults } from "../server/listener/options.ts";
import { milliseconds, wholeNumber } from "./values.ts";

/** The listener's own defaults are these. */
const connectionLimits = {
  connections: wholeNumber(1, 1_000_000)
    .default(listenerDefaults.connections)
    .describe("The connections at once; more are reset."),
  connectionsPerSource: wholeNumber(1, 1_000_000)
    .default(listenerDefaults.connectionsPerSource)
    .describe(
      "The connections at once from one IPv4 address, or one /64 of IPv6; more are reset. `trustedProxies` may have as many as there are.",
    ),
  callsPerConnection: wholeNumber(1, 1_000_000)
    .default(listenerDefaults.callsPerConnection)
    .describe("The calls at once on one connection: HTTP/2 streams, or HTTP/1.1 requests sent ahead of their answers."),
  headerBytes: wholeNumber(1024, 65_536)
    .default(listenerDefaults.headerBytes)
    .describe("The largest header of a request; larger ones are answered with 431, over HTTP/2 with a reset."),
  headerFields: wholeNumber(8, 10_000)
    .default(listenerDefaults.headerFields)
    .describe("The most fields that a header may have; more are answered as a larger one."),
  firstByteTimeoutMs: milliseconds
    .default(listenerDefaults.firstByteTimeoutMs)
    .describe(
      "How long a connection may take until its protocol shows: its TLS handshake and first bytes, or the whole beginning of HTTP/2.",
    ),
  headersTimeoutMs: milliseconds
    .default(listenerDefaults.headersTimeoutMs)
    .describe("How long the header of a request may take."),
  requestTimeoutMs: milliseconds
    .default(listenerDefaults.requestTimeoutMs)
    .describe(
      "How long a whole request may take to arrive, body included, unless its answer has begun; and how long one piece of an answer may wait.",
    ),
  idleTimeoutMs: milliseconds
    .default(listenerDefaults.idleTimeoutMs)
    .describe(
      "How long a connection may have no call. Be slower than the proxies in front, so that they end it first.",
    ),
  stallTimeoutMs: milliseconds
    .default(listenerDefaults.stallTimeoutMs)
    .describe("How long a body, or an answer that its client should take, may move slower than `minBytesPerSecond`."),
  minBytesPerSecond: wholeNumber(0, 1_000_000)
    .default(listenerDefaults.minBytesPerSecond)
    .describe("The pace that `stallTimeoutMs` asks for; 0: any byte will do."),
  resetsPerSecond: wholeNumber(1, 1_000_000)
    .default(listenerDefaults.resetsPerSecond)
    .describe(
      "How many HTTP/2 streams a client may reset; ten times as many at once. Beyond, its connection is ended, as by the next two.",
    ),
  invalidFrames: wholeNumber(1, 1_000_000)
    .default(listenerDefaults.invalidFrames)
    .describe("How many HTTP/2 frames of a connection may make no sense, such as DATA without data."),
  overheadBytesPerSecond: wholeNumber(1, 1_000_000_000)
    .default(listenerDefaults.overheadBytesPerSecond)
    .describe(
      "How much an HTTP/2 connection may send that is no call: PING, SETTINGS, WINDOW_UPDATE, padding; a minute's worth at once.",
    ),
  connectionAgeMs: milliseconds
    .optional()
    .describe(
      "After so long, give or take a tenth, a connection ends as soon as its calls have, so that load spreads anew. Absent: never.",
    ),
};

export const limits = z
  .strictObject({
    bodyBytes: wholeNumber(1, 1_073_741_824)
      .default(16_777_216)
      .describe("The largest body of a request, as it is after decompression; larger ones are answered with 413."),
    inFlight: wholeNumber(0, 1_000_000)
      .default(1000)
      .describe(
        "How many calls are served at once, and how many streams; more are answered with 503. 0: as many as come.",
      ),
    inFlightPerSource: wholeNumber(0, 1_000_000)
      .default(250)
      .describe(
        "How many of them may be one client's: of one IPv4 address, or one /64 of IPv6; more are answered with 503. `trustedProxies` may have all. 0: as `inFlight`.",
      ),
    eventLoopDelayMs: wholeNumber(0, 60_000)
      .default(500)
      .describe(
        "How late the event loop may run, smoothed, before calls are answered with 503. 0: as late as it gets.",
      ),
    deadlineMs: milliseconds
      .default(3_600_000)
      .describe("The longest deadline that a call can set; longer ones are cut to this. A call without one has none."),
    ...connectionLimits,
  })
  .prefault({});
