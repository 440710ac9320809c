import type { DescMethod } from "@bufbuild/protobuf";
import { RetryInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";
import type { Logger } from "pino";
import type { ClientKind } from "../../../auth/caller.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import type { Observer } from "../../../telemetry/observer.ts";
import { type ClientCounter, createClientCounter } from "../../http/client-counter.ts";
import { rejectRequest } from "../errors.ts";
import type { Guard } from "../pipeline.ts";
import type { RequestContext } from "../request-context.ts";

/**
 * Why a call was rejected: too many calls in flight, in total or of one client, the event loop is overloaded, or the bodies of
 * other calls take the memory for its body.
 */
export type SheddingReason = "in_flight" | "in_flight_per_source" | "event_loop" | "memory";

export const sheddingReasons: readonly SheddingReason[] = ["in_flight", "in_flight_per_source", "event_loop", "memory"];

export type SheddingOptions = {
  /** Limit of concurrent unary calls, and separately of concurrent streams. 0: unlimited. */
  readonly inFlight: number;
  /** Limit of either per client: an IPv4 address, or an IPv6 /64. 0: unlimited. */
  readonly inFlightPerSource: number;
  /** Limit of the average delay of the event loop. 0: unlimited. */
  readonly eventLoopDelayMs: number;
};

const causes: Readonly<Record<SheddingReason, string>> = {
  in_flight: "limits.inFlight is reached",
  in_flight_per_source: "limits.inFlightPerSource is reached for one client",
  event_loop: "the event loop delay exceeds limits.eventLoopDelayMs",
  memory: "large bodies of other calls take the memory of limits.memoryMb",
};

const logIntervalMs = 10_000;

/** The part of a limit by which it is raised for callers who authenticate. */
const reserveShare = 1 / 5;
const minReserve = 4;

export type LoadGuardOptions = SheddingOptions & {
  readonly isProxy: (address: string | undefined) => boolean;
  /** The methods for which the gate rejects callers without an identity by `Peer.overloaded`. */
  readonly identified: ReadonlySet<DescMethod>;
  readonly log: Logger;
  readonly observer: Pick<Observer, "callShed">;
};

/**
 * Rejects calls when the service is overloaded: 503 or UNAVAILABLE, with the number of seconds after which to retry.
 * Runs before authentication and before the body is read. Reports each rejected call to the observer.
 *
 * Beyond the limits of calls in flight, some more are admitted if the gate finds an identity, and a few while the event loop is
 * behind, so that callers without one can't keep operators out. Callers over the Unix socket are counted separately.
 */
export function createLoadGuard(options: LoadGuardOptions): { readonly guard: Guard } & Disposable {
  const { eventLoopDelayMs, identified, log, observer } = options;
  const loop = eventLoopDelayMs === 0 ? undefined : watchEventLoop(eventLoopDelayMs);
  const groups = createGroups(options);
  const shed = createOverloadReporter(log, observer);

  const guard: Guard = (request) => {
    const { method, isExempt } = request.route;
    const { exchange } = request;
    const { origin } = exchange;
    exchange.hasShortBody = isExempt;
    if (isExempt) {
      return undefined;
    }
    const isBehind = loop?.isBehind() === true && origin.kind !== "socket";
    const { calls, streams, late } = groups[origin.kind];
    const inFlight = isBehind ? late : method === undefined || method.methodKind === "unary" ? calls : streams;
    let exceeded: SheddingReason | undefined;
    if (inFlight.count >= inFlight.max) {
      exceeded = isBehind ? "event_loop" : "in_flight";
    }
    let release = exceeded === undefined ? inFlight.clients.admit(request.address) : undefined;
    if (release === undefined) {
      exceeded ??= "in_flight_per_source";
      if (!isBehind) {
        origin.table.exhaustedMs = performance.now();
      }
      release =
        method !== undefined && identified.has(method) && mayHaveIdentity(request)
          ? admitToReserve(inFlight, request.address)
          : undefined;
      if (release === undefined) {
        return rejectRequest(request, 503, shed(exceeded));
      }
      const reason = exceeded;
      request.overloaded = () => shed(reason);
    }
    inFlight.count += 1;
    request.onClose(() => {
      inFlight.count -= 1;
      release();
    });
    return undefined;
  };
  return { guard, [Symbol.dispose]: () => loop?.[Symbol.dispose]() };
}

/** Returns a function that reports a rejected call, and returns the error for its client. */
export function createOverloadReporter(
  log: Logger,
  observer: Pick<Observer, "callShed">,
): (reason: SheddingReason) => FlowgateError {
  const logShedding = createSheddingLog(log);
  return (reason) => {
    observer.callShed(reason);
    logShedding(reason);
    return overloaded(reason);
  };
}

/** The unary calls or the streams in flight, in total and per client. */
type InFlight = {
  count: number;
  readonly max: number;
  readonly reserve: number;
  readonly clientReserve: number;
  readonly clients: ClientCounter;
};

type Group = {
  readonly calls: InFlight;
  readonly streams: InFlight;
  /** Calls admitted while the event loop is behind: few, and with an identity. */
  readonly late: InFlight;
};

function createGroups({ inFlight, inFlightPerSource, isProxy }: LoadGuardOptions): Readonly<Record<ClientKind, Group>> {
  const create = (max: number, maxPerClient: number): InFlight => ({
    count: 0,
    max: max || Number.POSITIVE_INFINITY,
    reserve: reserveOf(max),
    clientReserve: reserveOf(maxPerClient),
    clients: createClientCounter(maxPerClient || Number.POSITIVE_INFINITY, isProxy),
  });
  const createGroup = (max: number, maxPerClient: number): Group => ({
    calls: create(max, maxPerClient),
    streams: create(max, maxPerClient),
    late: {
      count: 0,
      max: 0,
      reserve: minReserve,
      clientReserve: minReserve,
      clients: createClientCounter(0, isProxy),
    },
  });
  return { network: createGroup(inFlight, inFlightPerSource), socket: createGroup(inFlight, inFlightPerSource) };
}

function reserveOf(max: number): number {
  return Math.max(minReserve, Math.ceil(max * reserveShare));
}

function admitToReserve({ count, max, reserve, clientReserve, clients }: InFlight, address: string) {
  return count < max + reserve ? clients.admit(address, clientReserve) : undefined;
}

function mayHaveIdentity({ authorization, session, workload }: RequestContext): boolean {
  return authorization !== null || session !== undefined || workload !== undefined;
}

function overloaded(reason: SheddingReason): FlowgateError {
  // Randomized so that rejected clients do not retry simultaneously.
  const seconds = 1 + Math.floor(Math.random() * 3);
  return new FlowgateError(
    "overloaded",
    `the service is overloaded (${causes[reason]}): retry in ${seconds} s, or make fewer concurrent calls`,
    {
      details: [{ desc: RetryInfoSchema, value: { retryDelay: { seconds: BigInt(seconds) } } }],
      retryAfterMs: seconds * 1000,
    },
  );
}

/** Logs each reason at most every 10 s. */
function createSheddingLog(log: Logger): (reason: SheddingReason) => void {
  const nextLogMs = { in_flight: 0, in_flight_per_source: 0, event_loop: 0, memory: 0 };
  return (reason) => {
    const nowMs = performance.now();
    if (nowMs >= nextLogMs[reason]) {
      nextLogMs[reason] = nowMs + logIntervalMs;
      log.warn({ reason }, `calls are rejected: ${causes[reason]}`);
    }
  };
}

const sampleMs = 100;

/** Reports whether the event loop is overloaded, until it is disposed. */
interface EventLoopWatch extends Disposable {
  isBehind(): boolean;
}

/** Measures how late a periodic timer fires; `limitMs` as in `createDelayMeter`. */
function watchEventLoop(limitMs: number): EventLoopWatch {
  const isBehind = createDelayMeter(limitMs);
  let sampledMs = performance.now();
  let behind = false;
  const timer = setInterval(() => {
    const nowMs = performance.now();
    behind = isBehind(nowMs - sampledMs - sampleMs);
    sampledMs = nowMs;
  }, sampleMs);
  timer.unref();
  return { isBehind: () => behind, [Symbol.dispose]: () => clearInterval(timer) };
}

/**
 * Takes a series of delays, and returns whether they are too long: from when their moving average exceeds the limit
 * until it falls below half of it.
 *
 * A single delay never exceeds the limit, whatever its length, since a large deployment or a suspended machine is not
 * overload.
 */
export function createDelayMeter(limitMs: number): (delayMs: number) => boolean {
  // Samples are capped at twice the limit, so a single one can't raise the average from zero to the limit.
  const weight = 0.4;
  let smoothedMs = 0;
  let behind = false;
  return (delayMs) => {
    smoothedMs += weight * (Math.min(Math.max(delayMs, 0), 2 * limitMs) - smoothedMs);
    behind = smoothedMs > (behind ? limitMs / 2 : limitMs);
    return behind;
  };
}
