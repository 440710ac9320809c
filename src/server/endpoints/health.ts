import type { HealthOptions, GatewayResponse } from "@flowgate/gateway";
import { type ClientKind, peerKey } from "../../auth/caller.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { type ClientCounter, createClientCounter } from "../http/client-counter.ts";
import type { ListenerOptions } from "../http/listener-options.ts";
import type { RequestRoute } from "../pipeline/request-context.ts";
import { createEndpoint } from "../pipeline/router.ts";

export type Readiness = {
  ready: boolean;
  /** Full names of the RPC services that are not serving. Defaults to none if ready, to all otherwise. */
  notServing?: readonly string[];
  [check: string]: unknown;
};

export type ReadinessOptions = {
  ready: () => Readiness;
  /** Calls the listener after each change of the result of `ready`. Absent: it never changes. */
  onReadyChange?: (listener: () => void) => void;
};

/** The health of the process, for all protocols: ready, not ready, or draining. */
export class ProcessHealth {
  readonly #ready: ReadinessOptions["ready"];
  readonly #listeners: (() => void)[] = [];
  #isDraining = false;
  /** Cached until the next change, since every watch reads it after a change. */
  #cached: Readiness | undefined;

  constructor({ ready, onReadyChange }: ReadinessOptions) {
    this.#ready = ready;
    onReadyChange?.(() => this.#changed());
  }

  readiness(): Readiness {
    return this.#isDraining ? { ...this.#ready(), ready: false } : this.#ready();
  }

  get draining(): boolean {
    return this.#isDraining;
  }

  /** Makes everything permanently not ready, so that load balancers send calls elsewhere. */
  drain(): void {
    this.#isDraining = true;
    this.#changed();
  }

  /** True if a service can take calls; "" is the process as a whole. */
  serves(service: string): boolean {
    this.#cached ??= this.readiness();
    const { ready, notServing } = this.#cached;
    return service === "" || this.#isDraining || notServing === undefined ? ready : !notServing.includes(service);
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  #changed(): void {
    this.#cached = undefined;
    this.#listeners.forEach((listener) => listener());
  }
}

/** `/healthz` (liveness): the process serves requests. `/readyz` (readiness): it is ready and not draining. */
export function createHealthEndpoints(health: ProcessHealth): [string, RequestRoute][] {
  return [
    createEndpoint("/healthz", true, () => healthResponse(200, { status: "ok" })),
    createEndpoint("/readyz", true, () => {
      const { ready, notServing: _, ...checks } = health.readiness();
      if (health.draining) {
        return healthResponse(503, { status: "draining" });
      }
      return ready ? healthResponse(200, { status: "ready" }) : healthResponse(503, { status: "not ready", ...checks });
    }),
  ];
}

function healthResponse(status: number, body: object): GatewayResponse {
  const headers = { "content-type": "application/json", "cache-control": "no-store" };
  return { status, headers, body: JSON.stringify(body) };
}

/** Limited, since watches have no time limit and need no token. */
const maxHealthWatches = 1_000;
/** Limit per IPv4 address or IPv6 /64, and on the Unix socket. */
const maxHealthWatchesPerClient = 100;

export function limitHealthWatches(isProxy: ListenerOptions["isProxy"]): NonNullable<HealthOptions["admitWatch"]> {
  const counters: Readonly<Record<ClientKind, ClientCounter>> = {
    network: createClientCounter(maxHealthWatchesPerClient, isProxy),
    socket: createClientCounter(maxHealthWatchesPerClient, () => false),
  };
  let open = 0;
  return ({ values }) => {
    const { address, clientKind: kind = "network" } = values.get(peerKey);
    const isFull = kind === "network" && open >= maxHealthWatches;
    const release = isFull ? undefined : counters[kind].admit(kind === "network" ? address : kind);
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
