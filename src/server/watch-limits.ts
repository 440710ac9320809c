import type { HealthOptions } from "@flowgate/gateway";
import { type ClientKind, peerKey } from "../auth/caller.ts";
import { FlowgateError } from "../errors.ts";
import { type ClientCounter, createClientCounter } from "./listener/client-counter.ts";
import type { ListenerOptions } from "./listener/options.ts";

/** Limited, since watches have no time limit and need no token. */
const maxWatches = 1_000;
/** Limit per IPv4 address or IPv6 /64, and on the Unix socket. */
const maxWatchesPerClient = 100;
/** Limit of the flow runtime, a tenth of that of one client. */
const maxRuntimeWatches = 10;

/** Limits the health watches of each client. Those of flows are counted apart from those of operators with the same address. */
export function createWatchLimits(isProxy: ListenerOptions["isProxy"]): NonNullable<HealthOptions["admitWatch"]> {
  const counters: Readonly<Record<ClientKind, ClientCounter>> = {
    network: createClientCounter(maxWatchesPerClient, isProxy),
    socket: createClientCounter(maxWatchesPerClient, () => false),
    runtime: createClientCounter(maxRuntimeWatches, () => false),
  };
  let open = 0;
  return async ({ values }) => {
    const peer = values.get(peerKey);
    const kind = (await peer.clientKind?.()) ?? "network";
    const isFull = kind === "network" && open >= maxWatches;
    const release = isFull ? undefined : counters[kind].admit(kind === "network" ? peer.address : kind);
    if (release === undefined) {
      throw new FlowgateError("limit_exceeded", "too many open watches: use Check");
    }
    open++;
    return () => {
      open--;
      release();
    };
  };
}
