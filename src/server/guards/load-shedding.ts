import { type DescMethod, getOption } from "@bufbuild/protobuf";
import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import { AuthService } from "../../../gen/flowgate/v1/auth_pb.ts";
import { Health } from "../../../gen/grpc/health/v1/health_pb.ts";
import { http } from "../../../gen/google/api/annotations_pb.ts";
import { RetryInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import { FlowgateError } from "../../errors.ts";
import { watchEventLoop } from "./event-loop-delay.ts";
import { createSources, type Sources } from "../listener/sources.ts";
import { whenEnded } from "../exchange.ts";
import { pathOf, refuseRequest, type RpcPaths } from "./refuse-request.ts";
import { clientAddress } from "../trusted-proxies.ts";

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

const pathsOf = (method: DescMethod): string[] => {
  const rule = getOption(method, http).pattern;
  return [`/${method.parent.typeName}/${method.name}`, ...(typeof rule.value === "string" ? [rule.value] : [])];
};

/** What an operator needs most when all is busy: to see what is going on, and to take a token away. */
const exempt = new Set([
  "/healthz",
  "/readyz",
  "/metrics",
  ...[...Health.methods, AuthService.method.revokeToken].flatMap(pathsOf),
]);

const causes: Readonly<Record<SheddingReason, string>> = {
  in_flight: "as many calls as limits.inFlight allows are being served",
  in_flight_per_source: "as many calls as limits.inFlightPerSource allows are being served for one client",
  event_loop: "the event loop runs later than limits.eventLoopDelayMs allows",
};

const announceEveryMs = 10_000;

/**
 * Refuses calls that could not be served in time: 503, or UNAVAILABLE, with the seconds after which to try again,
 * before the gate and before the body. `onShed` hears of each.
 */
export function shedLoad(
  app: FastifyInstance,
  {
    inFlight,
    inFlightPerSource,
    eventLoopDelayMs,
    isProxy,
    rpcs,
    log,
    onShed,
  }: SheddingOptions & {
    isProxy: (address: string | undefined) => boolean;
    rpcs: RpcPaths;
    log: Logger;
    onShed?: ((reason: SheddingReason) => void) | undefined;
  },
): void {
  if (inFlight === 0 && inFlightPerSource === 0 && eventLoopDelayMs === 0) {
    return;
  }
  const loop = eventLoopDelayMs === 0 ? undefined : watchEventLoop(eventLoopDelayMs);
  app.addHook("onClose", (_app, done) => {
    loop?.[Symbol.dispose]();
    done();
  });
  const places = (): Places => ({
    taken: 0,
    sources: createSources(inFlightPerSource || Number.POSITIVE_INFINITY, isProxy),
  });
  const calls = places();
  const streams = places();
  const others = new Map<string, Places | "exempt">();
  for (const [path, { methodKind }] of rpcs) {
    if (methodKind !== "unary") {
      others.set(path, streams);
    }
  }
  for (const path of exempt) {
    others.set(path, "exempt");
  }
  const maxInFlight = inFlight || Number.POSITIVE_INFINITY;
  const announce = createAnnouncement(log);

  app.addHook("onRequest", (request, reply, done) => {
    const kind = others.get(pathOf(request)) ?? calls;
    if (kind === "exempt") {
      done();
      return;
    }
    const refuse = (reason: SheddingReason): void => {
      onShed?.(reason);
      announce(reason);
      refuseRequest(request, reply, { status: 503, error: overloaded(reason), rpcs });
    };
    if (loop?.isBehind() === true) {
      refuse("event_loop");
      return;
    }
    if (kind.taken >= maxInFlight) {
      refuse("in_flight");
      return;
    }
    const leave = kind.sources.admit(clientAddress(request));
    if (leave === undefined) {
      refuse("in_flight_per_source");
      return;
    }
    kind.taken += 1;
    // Nothing has waited since the request came: its end is still to come.
    whenEnded(reply.raw, () => {
      kind.taken -= 1;
      leave();
    });
    done();
  });
}

/** Of calls or of streams: how many are taken, and by whom. */
type Places = { taken: number; readonly sources: Sources };

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
