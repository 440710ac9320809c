import { totalmem } from "node:os";
import { getHeapStatistics } from "node:v8";
import * as z from "zod";
import { listenerDefaults } from "../server/http/listener-options.ts";
import { milliseconds, wholeNumber } from "./values.ts";

/** The defaults are the listener's. */
const connectionLimits = {
  connections: wholeNumber(1, 1_000_000)
    .default(listenerDefaults.connections)
    .describe(
      "Maximum number of connections. Beyond it, the connections idle for longest are closed; if none is idle, further connections are reset.",
    ),
  connectionsPerSource: wholeNumber(1, 1_000_000)
    .default(listenerDefaults.connectionsPerSource)
    .describe(
      "Maximum number of connections per client (IPv4 address or IPv6 /64), handled like `connections`. Addresses in `trustedProxies` are exempt.",
    ),
  callsPerConnection: wholeNumber(1, 1_000_000)
    .default(listenerDefaults.callsPerConnection)
    .describe("Maximum number of concurrent calls on one connection: HTTP/2 streams or pipelined HTTP/1.1 requests."),
  headerBytes: wholeNumber(1024, 65_536)
    .default(listenerDefaults.headerBytes)
    .describe(
      "Maximum size of a request header. A larger header is rejected with 431, over HTTP/2 with a stream reset.",
    ),
  headerFields: wholeNumber(8, 10_000)
    .default(listenerDefaults.headerFields)
    .describe("Maximum number of fields in a request header. Handled like `headerBytes`."),
  firstByteTimeoutMs: milliseconds
    .default(listenerDefaults.firstByteTimeoutMs)
    .describe(
      "How long a new connection may take for the TLS handshake and its first bytes; for HTTP/2, for the whole connection preface.",
    ),
  headersTimeoutMs: milliseconds
    .default(listenerDefaults.headersTimeoutMs)
    .describe("How long the header of a request may take to arrive."),
  requestTimeoutMs: milliseconds
    .default(listenerDefaults.requestTimeoutMs)
    .describe(
      "How long a whole request, including its body, may take to arrive unless its response has begun; also how long one write of a response may wait.",
    ),
  idleTimeoutMs: milliseconds
    .default(listenerDefaults.idleTimeoutMs)
    .describe(
      "How long a connection may be without a call. Should exceed the idle timeout of proxies in front, so that they close first.",
    ),
  stallTimeoutMs: milliseconds
    .default(listenerDefaults.stallTimeoutMs)
    .describe(
      "How long a request body, or a response that waits for its client, may be slower than `minBytesPerSecond`.",
    ),
  anonymousStallTimeoutMs: milliseconds
    .default(listenerDefaults.anonymousStallTimeoutMs)
    .describe(
      "How long an HTTP/2 response may wait for the flow-control windows of its client without progress if the call had no valid token or workload identity. While calls are rejected because of `inFlight` or `inFlightPerSource`, a fifth of it.",
    ),
  minBytesPerSecond: wholeNumber(0, 1_000_000)
    .default(listenerDefaults.minBytesPerSecond)
    .describe("Minimum throughput, averaged over `stallTimeoutMs`. 0: any progress within that time is sufficient."),
  connectionAgeMs: milliseconds
    .optional()
    .describe(
      "Maximum age of a connection, varied by ±10 %. An older connection is closed when its calls have ended, so that load is redistributed. Absent: no limit.",
    ),
};

export const limits = z
  .strictObject({
    bodyBytes: wholeNumber(1, 1_073_741_824)
      .default(16_777_216)
      .describe("Maximum size of a request body after decompression. Larger bodies are rejected with 413."),
    inFlight: wholeNumber(0, 1_000_000)
      .default(1000)
      .describe(
        "Maximum number of concurrent calls. Streams have a separate limit of the same size. Further calls are rejected with 503, but a fifth more are accepted with a token. 0 disables the limit.",
      ),
    inFlightPerSource: wholeNumber(0, 1_000_000)
      .default(250)
      .describe(
        "Maximum number of concurrent calls, and of concurrent streams, per client (IPv4 address or IPv6 /64), handled like `inFlight`. Addresses in `trustedProxies` are exempt. 0 disables the limit.",
      ),
    eventLoopDelayMs: wholeNumber(0, 60_000)
      .default(500)
      .describe(
        "Maximum smoothed delay of the event loop. While it is exceeded, calls are rejected with 503, but four at once are accepted with a token. 0 disables the limit.",
      ),
    memoryMb: wholeNumber(64, 1_048_576)
      .optional()
      .describe(
        "Memory in MiB that request bodies of more than 64 KiB may take while they are received, decompressed and decoded. Bodies wait for it. Also the maximum heap of each thread that decodes or compares flows. Absent: half of the heap's limit or a quarter of the memory of the machine or cgroup, whichever is less, from 64 to 512.",
      ),
    memoryWaitMs: milliseconds
      .default(10_000)
      .describe("How long a request body may wait for memory. Then its call is rejected with 503."),
    analysisMs: milliseconds
      .default(5_000)
      .describe(
        "Time limit of a plan or a comparison of revisions, including its wait for others. Beyond it, the call is rejected with 429.",
      ),
    deploymentAnalysisMs: milliseconds
      .default(30_000)
      .describe(
        "Time limit of each step of a deployment: decoding and validating its flows if they are large, merging them or describing a conflict, and validating a revision that is restored.",
      ),
    deadlineMs: milliseconds
      .default(3_600_000)
      .describe(
        "Maximum deadline that a call can set. Longer deadlines are shortened to it. A call that sets none has no deadline.",
      ),
    ...connectionLimits,
  })
  .prefault({});

export type MemoryLimits = {
  /** The largest size of V8's heap (`--max-old-space-size`). */
  readonly heap: number;
  /**
   * The memory limit of the cgroup, shared with the flow runtime; 0 or more than the machine's memory if there is none.
   */
  readonly constrained: number;
  readonly machine: number;
};

const MiB = 1024 * 1024;

/**
 * The default of `limits.memoryMb`: half of the heap or a quarter of the memory, whichever is less. The rest is for
 * everything but bodies, and in the machine for the flow runtime too. More than 512 MiB would serve no more
 * deployments, since they are decoded one after another.
 */
export function defaultMemoryMb({ heap, constrained, machine }: MemoryLimits = readLimits()): number {
  const memory = constrained > 0 ? Math.min(constrained, machine) : machine;
  return Math.round(Math.min(512, Math.max(64, Math.min(heap / 2, memory / 4) / MiB)));
}

function readLimits(): MemoryLimits {
  return { heap: getHeapStatistics().heap_size_limit, constrained: process.constrainedMemory(), machine: totalmem() };
}
