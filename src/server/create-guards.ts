import type { DescMethod } from "@bufbuild/protobuf";
import { createOriginCheck } from "@flowgate/transcoding/server";
import type { Observer } from "../telemetry/observer.ts";
import type { ListenerOptions } from "./listener/options.ts";
import type { ServerOptions } from "./options.ts";
import type { Guard } from "./pipeline/pipeline.ts";
import { createPageGuard } from "./guards/browser-safety.ts";
import { createCorsGuard } from "./guards/cors.ts";
import { createLoadGuard } from "./guards/load-shedding.ts";
import { addSecurityHeaders } from "./guards/security-headers.ts";

type GuardContext = {
  readonly isProxy: ListenerOptions["isProxy"];
  readonly methods: readonly DescMethod[];
  readonly share: ListenerOptions["runtimeShare"];
  readonly onRuntimeSurplus: ListenerOptions["onRuntimeSurplus"];
};

/** In order of execution. */
export function createGuards(
  options: ServerOptions & { readonly observer: Observer },
  { isProxy, methods, share, onRuntimeSurplus }: GuardContext,
  stack: AsyncDisposableStack,
): Guard[] {
  const { browserSafety, cors, observer, limits, log, identified = new Set() } = options;
  const guards: Guard[] = [addSecurityHeaders];
  if (browserSafety !== undefined) {
    guards.push(createPageGuard({ ...browserSafety, isListed: createOriginCheck(cors?.origins ?? []) }));
  }
  if (cors !== undefined) {
    guards.push(createCorsGuard(cors, methods));
  }
  const { inFlight = 0, inFlightPerSource = 0, eventLoopDelayMs = 0 } = limits;
  const load = stack.use(
    createLoadGuard({
      inFlight,
      inFlightPerSource,
      eventLoopDelayMs,
      isProxy,
      identified,
      runtimeCalls: share.calls,
      onRuntimeSurplus,
      log,
      observer,
    }),
  );
  return [...guards, load.guard];
}
