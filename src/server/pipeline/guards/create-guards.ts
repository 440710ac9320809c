import type { DescMethod } from "@bufbuild/protobuf";
import { createOriginCheck } from "@flowgate/gateway/server";
import { FlowgateError } from "@flowgate/flows/errors";
import { rejectRequest } from "../errors.ts";
import type { Guard } from "../pipeline.ts";
import { type BrowserSafetyOptions, createPageGuard } from "./browser-safety.ts";
import { type CorsOptions, createCorsGuard } from "./cors.ts";
import { createLoadGuard, type LoadGuardOptions, type SheddingOptions } from "./load-shedding.ts";

type GuardOptions = {
  readonly limits: Partial<SheddingOptions>;
  /** As in ApiOptions. */
  readonly identified?: ReadonlySet<DescMethod>;
  /** As in ClientOptions. */
  readonly browserSafety?: BrowserSafetyOptions | undefined;
  /** As in ClientOptions. */
  readonly cors?: CorsOptions | undefined;
};

type GuardContext = Pick<LoadGuardOptions, "isProxy" | "log" | "observer"> & {
  readonly methods: readonly DescMethod[];
};

/** In order of execution. */
export function createGuards(
  { browserSafety, cors, limits, identified = new Set() }: GuardOptions,
  { methods, ...context }: GuardContext,
  stack: AsyncDisposableStack,
): Guard[] {
  const guards: Guard[] = [addSecurityHeaders];
  if (browserSafety !== undefined) {
    guards.push(createPageGuard({ ...browserSafety, isListed: createOriginCheck(cors?.origins ?? []) }));
  }
  if (cors !== undefined) {
    guards.push(createCorsGuard(cors, methods));
  }
  guards.push(rejectNodeRedHeaders);
  const { inFlight = 0, inFlightPerSource = 0, eventLoopDelayMs = 0 } = limits;
  const load = stack.use(createLoadGuard({ inFlight, inFlightPerSource, eventLoopDelayMs, identified, ...context }));
  return [...guards, load.guard];
}

/** Headers of Node-RED's admin API, by the names that its clients send, with this API's counterparts. */
const nodeRedHeaders = [
  ["Node-RED-API-Version", "Service-API-Version"],
  ["Node-RED-Deployment-Type", "Service-Deployment-Type"],
].map(([name = "", own = ""]) => ({ name, key: name.toLowerCase(), own }));

/** Rejects them, since ignoring one would deploy as `full` a request that meant `nodes`. */
const rejectNodeRedHeaders: Guard = (request) => {
  const found = nodeRedHeaders.find(({ key }) => request.headers[key] !== undefined);
  return (
    found &&
    rejectRequest(
      request,
      400,
      new FlowgateError(
        "invalid_argument",
        `the header ${found.name}: belongs to Node-RED's admin API: send ${found.own} instead, with the same value`,
      ),
    )
  );
};

/**
 * Prevents pages of other origins from embedding a response as an image, script or the like, so that its bytes never reach their
 * process (Spectre). Does not affect CORS.
 */
const addSecurityHeaders: Guard = (request) => {
  // The User-Agent of every browser begins with this, and pages can't change it. Other clients don't need the header.
  if (request.headers["user-agent"]?.startsWith("Mozilla/") === true) {
    request.setResponseHeader("cross-origin-resource-policy", "same-origin");
  }
  return undefined;
};
