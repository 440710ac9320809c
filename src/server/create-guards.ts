import type { DescMethod } from "@bufbuild/protobuf";
import { createOriginCheck } from "@flowgate/gateway/server";
import { FlowgateError } from "../errors.ts";
import type { Observer } from "../telemetry/observer.ts";
import type { ListenerOptions } from "./listener/options.ts";
import type { ServerOptions } from "./options.ts";
import type { Guard } from "./pipeline/pipeline.ts";
import { rejectRequest } from "./pipeline/reject.ts";
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
  guards.push(rejectNodeRedHeaders);
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

/** Headers of Node-RED's admin API, by the names that its clients send, with those that this API has instead. */
const nodeRedHeaders = [
  ["Node-RED-API-Version", "Service-API-Version"],
  ["Node-RED-Deployment-Type", "Service-Deployment-Type"],
].map(([name = "", own = ""]) => ({ name, key: name.toLowerCase(), own }));

/** Rejects them, since ignoring one would deploy as `full` what the client meant as `nodes`. */
const rejectNodeRedHeaders: Guard = (request) => {
  const found = nodeRedHeaders.find(({ key }) => request.headers[key] !== undefined);
  return (
    found &&
    rejectRequest(
      request,
      400,
      new FlowgateError(
        "invalid_argument",
        `the header ${found.name}: is one of Node-RED's admin API: send ${found.own} instead, which has the same values`,
      ),
    )
  );
};
