import type { Logger } from "pino";
import { RetryInfoSchema } from "@flowgate/transcoding/gen/google/rpc/error_details_pb.js";
import { FlowgateError } from "../../errors.ts";
import { watchEventLoop } from "./event-loop-delay.ts";
import { createClientCounter, type ClientCounter } from "../listener/client-counter.ts";
import type { Observer } from "../../telemetry/observer.ts";
import type { TranscodingResponse } from "@flowgate/transcoding/server";
import type { Guard } from "../pipeline/pipeline.ts";
import { rejectRequest } from "../pipeline/reject.ts";
import type { RequestContext } from "../pipeline/request-context.ts";

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

/**
 * Rejects calls when the service is overloaded: 503 or UNAVAILABLE, with the number of seconds after which to retry.
 * Runs before authentication and before the body is read. Reports each rejected call to the observer.
 */
export function createLoadGuard({
  inFlight,
  inFlightPerSource,
  eventLoopDelayMs,
  isProxy,
  log,
  observer,
}: SheddingOptions & {
  isProxy: (address: string | undefined) => boolean;
  log: Logger;
  observer: Pick<Observer, "callShed">;
}): { readonly guard: Guard } & Disposable {
  const loop = eventLoopDelayMs === 0 ? undefined : watchEventLoop(eventLoopDelayMs);
  const createInFlight = (): InFlight => ({
    count: 0,
    clients: createClientCounter(inFlightPerSource || Number.POSITIVE_INFINITY, isProxy),
  });
  const calls = createInFlight();
  const streams = createInFlight();
  const maxInFlight = inFlight || Number.POSITIVE_INFINITY;
  const report = createOverloadReporter(log, observer);

  const shed = (request: RequestContext, reason: SheddingReason): TranscodingResponse =>
    rejectRequest(request, 503, report(reason));

  const guard: Guard = (request) => {
    const { method, isExempt } = request.route;
    if (isExempt) {
      return undefined;
    }
    const kind = method === undefined || method.methodKind === "unary" ? calls : streams;
    if (loop?.isBehind() === true) {
      return shed(request, "event_loop");
    }
    if (kind.count >= maxInFlight) {
      return shed(request, "in_flight");
    }
    const release = kind.clients.admit(request.address);
    if (release === undefined) {
      return shed(request, "in_flight_per_source");
    }
    kind.count += 1;
    request.onClose(() => {
      kind.count -= 1;
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
type InFlight = { count: number; readonly clients: ClientCounter };

function overloaded(reason: SheddingReason): FlowgateError {
  // Randomized so that rejected clients do not retry simultaneously.
  const seconds = 1 + Math.floor(Math.random() * 3);
  return new FlowgateError(
    "overloaded",
    `the service is overloaded (${causes[reason]}): retry in ${seconds} s, or make fewer concurrent calls`,
    {
      details: [{ desc: RetryInfoSchema, value: { retryDelay: { seconds: BigInt(seconds) } } }],
      headers: { "retry-after": String(seconds) },
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
