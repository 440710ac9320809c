import type { TranscodingResponse } from "@flowgate/transcoding/server";
import { createEndpoint } from "./pipeline/endpoint.ts";
import type { Route } from "./pipeline/request-context.ts";

/** Whether the service is ready; further properties report individual checks. */
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
export interface Health {
  /** The result of `ready`; never ready while draining. */
  readiness(): Readiness;
  /** Whether a service can take calls; "" is the server as a whole. undefined: there is no such service. */
  serves(service: string): boolean | undefined;
  /** The names that `serves` accepts, including "". */
  readonly services: readonly string[];
  readonly draining: boolean;
  /** Makes everything permanently not ready, so that load balancers send calls elsewhere. */
  drain(): void;
  /** Ends all iterations of `changes`. */
  close(): void;
  /**
   * Yields after each change from now on, coalescing changes that were not read yet. Throws an AbortError when the
   * signal is aborted, and ends with close().
   */
  changes(signal: AbortSignal): AsyncIterable<unknown>;
  /** Number of open iterations of `changes`. */
  subscriptions(): number;
}

export function createHealth({ ready, onReadyChange }: ReadinessOptions, services: readonly string[]): Health {
  const subscriptions = new Set<Subscription>();
  let draining = false;
  let closed = false;
  /** Cached until the next change, since every subscription reads it after a change. */
  let cached: Readiness | undefined;
  const changed = (): void => {
    cached = undefined;
    subscriptions.forEach((subscription) => subscription.notify());
  };
  onReadyChange?.(changed);

  const readiness = (): Readiness => {
    const now = ready();
    return draining ? { ...now, ready: false, notServing: services } : now;
  };
  return {
    readiness,
    serves(service) {
      cached ??= readiness();
      const { ready, notServing = ready ? [] : services } = cached;
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
      subscriptions.forEach((subscription) => subscription.end());
    },
    changes(signal) {
      const subscription = new Subscription(signal, () => subscriptions.delete(subscription));
      if (closed) {
        subscription.end();
      } else {
        subscriptions.add(subscription);
      }
      return subscription;
    },
    subscriptions: () => subscriptions.size,
  };
}

/** Coalesces unread changes instead of queueing them: the queue of events.on would take 32 KB. */
class Subscription implements AsyncIterableIterator<void, undefined> {
  readonly #signal: AbortSignal;
  readonly #onEnd: () => void;
  #hasChanged = false;
  #isEnded = false;
  #pending: PromiseWithResolvers<IteratorResult<void, undefined>> | undefined;

  constructor(signal: AbortSignal, onEnd: () => void) {
    this.#signal = signal;
    this.#onEnd = onEnd;
    signal.addEventListener("abort", this, { once: true });
  }

  notify(): void {
    this.#hasChanged = true;
    this.#settle();
  }

  end(): void {
    this.#isEnded = true;
    this.#onEnd();
    this.#settle();
  }

  /** Listener for the abort event of the signal. */
  handleEvent(): void {
    this.end();
  }

  next(): Promise<IteratorResult<void, undefined>> {
    this.#pending = Promise.withResolvers();
    const { promise } = this.#pending;
    this.#settle();
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

  /** Settles the pending read, if there is one and there is something to report. */
  #settle(): void {
    const pending = this.#pending;
    if (pending === undefined) {
      return;
    }
    if (this.#signal.aborted) {
      pending.reject(new DOMException("The operation was aborted", "AbortError"));
    } else if (this.#hasChanged) {
      this.#hasChanged = false;
      pending.resolve({ done: false, value: undefined });
    } else if (this.#isEnded) {
      pending.resolve({ done: true, value: undefined });
    } else {
      return;
    }
    this.#pending = undefined;
  }
}

/** `/healthz` (liveness): the process serves requests. `/readyz` (readiness): it is ready and not draining. */
export function createHealthEndpoints(health: Health): [string, Route][] {
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

function healthResponse(status: number, body: object): TranscodingResponse {
  const headers = { "content-type": "application/json", "cache-control": "no-store" };
  return { status, headers, body: JSON.stringify(body) };
}
