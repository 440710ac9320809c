import type { DescMethod } from "@bufbuild/protobuf";
import type { Code } from "@connectrpc/connect";

/** "rest" is the documented HTTP API, "node-red" what Node-RED's tools call on their own port. */
export type Protocol = "rest" | "connect" | "grpc" | "grpc-web" | "node-red";

/** undefined: success. */
export type CallOutcome = Code | undefined;

/**
 * The outcome of a deployment. `running`: the runtime has started it; `not_running`: it is committed, but the runtime
 * can't start it, or has not yet; `conflict`: another one was committed first; `refused`: it is invalid; `canceled`: the
 * call was canceled before the commit; `error`: the service failed.
 */
export const deploymentMetricOutcomes = ["running", "not_running", "conflict", "refused", "canceled", "error"] as const;

export type DeploymentMetricOutcome = (typeof deploymentMetricOutcomes)[number];

/** Receives the events that are measured. Methods must not throw. */
export interface Observer {
  requestStarted(): void;
  /** `method` is undefined if the request was not routed to an RPC. */
  requestEnded(method: DescMethod | undefined, protocol: Protocol, outcome: CallOutcome, seconds: number): void;
  /** A call was rejected because the service is overloaded. */
  callShed(reason: string): void;
  /** A connection or a call was ended because of a limit. */
  limitReached(limit: string): void;
  tlsHandshakeFailed(reason: string): void;
  deployed(type: string, outcome: DeploymentMetricOutcome, seconds: number): void;
}

/** For services without metrics. */
export const silentObserver: Observer = {
  requestStarted() {},
  requestEnded() {},
  callShed() {},
  limitReached() {},
  tlsHandshakeFailed() {},
  deployed() {},
};
