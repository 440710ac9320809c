import { type ListenerOptions, listenerDefaults } from "./listener/options.ts";
import type { ServerOptions } from "./options.ts";

/** The share of the flow runtime: a tenth of the limits of one client. */
export function shareOfRuntime({
  connectionsPerSource,
  inFlightPerSource,
  inFlight,
}: ServerOptions["limits"]): ListenerOptions["runtimeShare"] {
  const tenthOf = (limit: number): number => Math.max(1, Math.floor(limit / 10));
  return {
    connections: tenthOf(connectionsPerSource ?? listenerDefaults.connectionsPerSource),
    calls: tenthOf(inFlightPerSource || inFlight || Number.POSITIVE_INFINITY),
  };
}
