import type { Logger } from "pino";
import { RetryInfoSchema } from "@flowgate/transcoding/gen/google/rpc/error_details_pb.js";
import { FlowgateError } from "../../errors.ts";
import { watchEventLoop } from "./event-loop-delay.ts";
import { createClientCounter, type ClientCounter } from "../listener/client-counter.ts";
import type { Observer } from "../../telemetry/observer.ts";
import type { TranscodingResponse } from "@flowgate/transcoding/server";
import type { Guard } from "../pipeline/pipeline.ts";
import { refuse } from "../pipeline/refuse.ts";
import type { RequestContext } from "../pipeline/request-context.ts";

/** Why a call was refused: too many are being served, of all or of its source, or the event loop has fallen behind. */
export type SheddingReason = "in_flight" | "in_flight_per_source" | "event_loop";

export const sheddingReasons: readonly SheddingReason[] = ["in_flight", "in_flight_per_source", "event_loop"];

export type SheddingOptions = {
  /** How many calls are served at once; streams have as many places of their own. 0: as many as come. */
  readonly inFlight: number;
  /** How many of them may be of one source: an IPv4 address, or of IPv6 a /64. 0: all. */
  readonly inFlightPerSource: number;
  /** How late the event loop may run, smoothed. 0: as late as it gets. */
  readonly eventLoopDelayMs: number;
};

const causes: Readonly<Record<SheddingReason, string>> = {
  in_flight: "as many calls as limits.inFlight allows are being served",
  in_flight_per_source: "as many calls as limits.inFlightPerSource allows are being served for one client",
  event_loop: "the event loop runs later than limits.eventLoopDelayMs allows",
};

const announceEveryMs = 10_000;

/**
 * Refuses calls that could not be served in time: 503, or UNAVAILABLE, with the seconds after which to try again,
 * before the gate and before the body. The observer is told of each.
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
  const places = (): Places => ({
    taken: 0,
    sources: createClientCounter(inFlightPerSource || Number.POSITIVE_INFINITY, isProxy),
  });
  const calls = places();
  const streams = places();
  const maxInFlight = inFlight || Number.POSITIVE_INFINITY;
  const announce = createAnnouncement(log);

  const refuseFor = (request: RequestContext, reason: SheddingReason): TranscodingResponse => {
    observer.callShed(reason);
    announce(reason);
    return refuse(request, 503, overloaded(reason));
  };

  const guard: Guard = (request) => {
    const { method, isExempt } = request.route;
    if (isExempt) {
      return undefined;
    }
    const kind = method === undefined || method.methodKind === "unary" ? calls : streams;
    if (loop?.isBehind() === true) {
      return refuseFor(request, "event_loop");
    }
    if (kind.taken >= maxInFlight) {
      return refuseFor(request, "in_flight");
    }
    const leave = kind.sources.admit(request.address);
    if (leave === undefined) {
      return refuseFor(request, "in_flight_per_source");
    }
    kind.taken += 1;
    request.onClose(() => {
      kind.taken -= 1;
      leave();
    });
    return undefined;
  };
  return { guard, [Symbol.dispose]: () => loop?.[Symbol.dispose]() };
}

/** Of calls or of streams: how many are taken, and by whom. */
type Places = { taken: number; readonly sources: ClientCounter };

function overloaded(reason: SheddingReason): FlowgateError {
  // Clients that were refused together should not come back together.
  const seconds = 1 + Math.floor(Math.random() * 3);
  return new FlowgateError(
    "overloaded",
    `the service is overloaded (${causes[reason]}): try again in ${seconds} s, or make fewer calls at once`,
    {
      details: [{ desc: RetryInfoSchema, value: { retryDelay: { seconds: BigInt(seconds) } } }],
      headers: { "retry-after": String(seconds) },
    },
  );
}

/** Overload must not fill the log too. */
function createAnnouncement(log: Logger): (reason: SheddingReason) => void {
  const quietUntilMs = { in_flight: 0, in_flight_per_source: 0, event_loop: 0 };
  return (reason) => {
    const nowMs = performance.now();
    if (nowMs >= quietUntilMs[reason]) {
      quietUntilMs[reason] = nowMs + announceEveryMs;
      log.warn({ reason }, `calls are refused: ${causes[reason]}`);
    }
  };
}
