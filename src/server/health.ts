import type { TranscodingResponse } from "@flowgate/transcoding/server";
import { createEndpoint } from "./pipeline/endpoint.ts";
import type { Route } from "./pipeline/request-context.ts";

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
   * Yields after changes, from now on; several that were not read yet are one. Throws an AbortError when the signal is
   * aborted, and ends with close().
   */
  changes(signal: AbortSignal): AsyncIterable<unknown>;
  /** How many `changes` are followed now. */
  followers(): number;
}

export function createHealth({ ready, onReadyChange }: ReadinessSource, services: readonly string[]): Health {
  const followers = new Set<Follower>();
  let draining = false;
  let closed = false;
  /** Kept from one change to the next: after a change every follower asks for it. */
  let known: Readiness | undefined;
  const changed = (): void => {
    known = undefined;
    followers.forEach((follower) => follower.change());
  };
  onReadyChange?.(changed);

  const readiness = (): Readiness => {
    const now = ready();
    return draining ? { ...now, ready: false, notServing: services } : now;
  };
  return {
    readiness,
    serves(service) {
      known ??= readiness();
      const { ready, notServing = ready ? [] : services } = known;
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
      followers.forEach((follower) => follower.end());
    },
    changes(signal) {
      const follower = new Follower(signal, () => followers.delete(follower));
      if (closed) {
        follower.end();
      } else {
        followers.add(follower);
      }
      return follower;
    },
    followers: () => followers.size,
  };
}

/** One who waits for changes. Several that were not read are one: a queue such as that of events.on holds 32 KB. */
class Follower implements AsyncIterableIterator<void, undefined> {
  readonly #signal: AbortSignal;
  readonly #left: () => void;
  #hasChanged = false;
  #isOver = false;
  #settle: PromiseWithResolvers<IteratorResult<void, undefined>> | undefined;

  constructor(signal: AbortSignal, left: () => void) {
    this.#signal = signal;
    this.#left = left;
    signal.addEventListener("abort", this, { once: true });
  }

  change(): void {
    this.#hasChanged = true;
    this.#wake();
  }

  end(): void {
    this.#isOver = true;
    this.#left();
    this.#wake();
  }

  /** The signal was aborted. */
  handleEvent(): void {
    this.end();
  }

  next(): Promise<IteratorResult<void, undefined>> {
    this.#settle = Promise.withResolvers();
    const { promise } = this.#settle;
    this.#wake();
    return promise;
  }

  return(): Promise<IteratorResult<void, undefined>> {
    this.#signal.removeEventListener("abort", this);
    this.end();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #wake(): void {
    const settle = this.#settle;
    if (settle === undefined) {
      return;
    }
    if (this.#signal.aborted) {
      settle.reject(new DOMException("The operation was aborted", "AbortError"));
    } else if (this.#hasChanged) {
      this.#hasChanged = false;
      settle.resolve({ done: false, value: undefined });
    } else if (this.#isOver) {
      settle.resolve({ done: true, value: undefined });
    } else {
      return;
    }
    this.#settle = undefined;
  }
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

function report(status: number, body: object): TranscodingResponse {
  const headers = { "content-type": "application/json", "cache-control": "no-store" };
  return { status, headers, body: JSON.stringify(body) };
}
