import { EventEmitter, on } from "node:events";
import type { Answer } from "../transcoding/core.ts";
import { createEndpoint } from "./pipeline/endpoint.ts";
import type { Route } from "./pipeline/route.ts";

/** Whether the service can do its work now; what else it holds tells which part can or can't. */
export type Readiness = {
  ready: boolean;
  /** The RPC services that can't do theirs, by full name. Absent: none where it is ready, all where it is not. */
  notServing?: readonly string[];
  [check: string]: unknown;
};

export type ReadinessSource = {
  ready: () => Readiness;
  /** Calls the listener after each change of what `ready` says. Absent: it never changes. */
  onReadyChange?: (listener: () => void) => void;
};

/** What the process says of itself, whoever asks and over which protocol: ready or not, or about to leave. */
export interface Health {
  /** As `ready` has it, and never ready while it drains. */
  readiness(): Readiness;
  /** Whether this service can take calls; "" is the server as a whole. undefined where there is no such service. */
  serves(service: string): boolean | undefined;
  /** The names that `serves` knows, "" among them. */
  readonly services: readonly string[];
  readonly draining: boolean;
  /** From now on, and for good, nothing is ready: whoever balances load takes its calls elsewhere. */
  drain(): void;
  /** Ends all `changes`. */
  close(): void;
  /**
   * Yields after each change, from now on; what was not yet read is kept. Throws an AbortError where the
   * signal is aborted, and ends with close().
   */
  changes(signal: AbortSignal): AsyncIterable<unknown>;
  /** How many `changes` are followed now. */
  followers(): number;
}

export function createHealth({ ready, onReadyChange }: ReadinessSource, services: readonly string[]): Health {
  const events = new EventEmitter().setMaxListeners(0);
  let draining = false;
  let closed = false;
  const changed = (): void => void events.emit("change");
  onReadyChange?.(changed);

  const readiness = (): Readiness => {
    const now = ready();
    return draining ? { ...now, ready: false, notServing: services } : now;
  };
  return {
    readiness,
    serves(service) {
      const { ready, notServing = ready ? [] : services } = readiness();
      if (service === "") {
        return ready;
      }
      return services.includes(service) ? !notServing.includes(service) : undefined;
    },
    services: ["", ...services],
    get draining() {
      return draining;
    },
    drain() {
      draining = true;
      changed();
    },
    close() {
      closed = true;
      events.emit("close");
    },
    changes(signal) {
      const following = on(events, "change", { signal, close: ["close"] });
      if (closed) {
        void following.return?.();
      }
      return following;
    },
    followers: () => events.listenerCount("change"),
  };
}

/** `/healthz`: the process serves. `/readyz`: it has all it needs to serve well, and does not drain. */
export function createHealthEndpoints(health: Health): [string, Route][] {
  return [
    createEndpoint("/healthz", true, () => report(200, { status: "ok" })),
    createEndpoint("/readyz", true, () => {
      const { ready, notServing: _, ...checks } = health.readiness();
      if (health.draining) {
        return report(503, { status: "draining" });
      }
      return ready ? report(200, { status: "ready" }) : report(503, { status: "not ready", ...checks });
    }),
  ];
}

function report(status: number, body: object): Answer {
  const headers = { "content-type": "application/json", "cache-control": "no-store" };
  return { status, headers, body: JSON.stringify(body) };
}
