import type { TranscodingResponse } from "@flowgate/transcoding/server";
import { FlowgateError } from "../errors.ts";
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
  /** Ends all watches with an error. */
  close(): void;
  /**
   * Yields the result of `read`, and after changes of the health each different one; changes that were not read yet are
   * coalesced. `return` ends the watch, also while `next` is pending. `onEnd` is called once.
   */
  watch<T extends object>(read: () => T, onEnd: () => void): AsyncIterator<T, undefined>;
  /** Number of open watches. */
  watches(): number;
}

export function createHealth({ ready, onReadyChange }: ReadinessOptions, services: readonly string[]): Health {
  const watches = new Set<Pick<Watch<object>, "settle" | "close">>();
  let draining = false;
  let closed = false;
  /** Cached until the next change, since every watch reads it after a change. */
  let cached: Readiness | undefined;
  const changed = (): void => {
    cached = undefined;
    watches.forEach((watch) => watch.settle());
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
      watches.forEach((watch) => watch.close());
    },
    watch(read, onEnd) {
      const watch = new Watch(read, () => {
        if (watches.delete(watch)) {
          onEnd();
        }
      });
      watches.add(watch);
      if (closed) {
        watch.close();
      }
      return watch;
    },
    watches: () => watches.size,
  };
}

const done = { done: true, value: undefined } as const;

/** Values are read when they are requested, so that unread changes take no memory. */
class Watch<T> implements AsyncIterator<T, undefined> {
  readonly #read: () => T;
  readonly #onEnd: () => void;
  #last: T | undefined;
  #isClosing = false;
  #isEnded = false;
  #pending: PromiseWithResolvers<IteratorResult<T, undefined>> | undefined;

  constructor(read: () => T, onEnd: () => void) {
    this.#read = read;
    this.#onEnd = onEnd;
  }

  /** Settles the pending `next`, if there is something to report. */
  settle(): void {
    const pending = this.#pending;
    if (pending === undefined) {
      return;
    }
    const value = this.#isEnded ? this.#last : this.#read();
    if (value !== this.#last) {
      this.#last = value;
      pending.resolve({ done: false, value: value as T });
    } else if (this.#isEnded) {
      pending.resolve(done);
    } else if (this.#isClosing) {
      this.#isEnded = true;
      pending.reject(new FlowgateError("unavailable", "the service is closing"));
    } else {
      return;
    }
    this.#pending = undefined;
  }

  /** Ends it with an error, after the last change. */
  close(): void {
    this.#isClosing = true;
    this.#onEnd();
    this.settle();
  }

  next(): Promise<IteratorResult<T, undefined>> {
    this.#pending = Promise.withResolvers();
    const { promise } = this.#pending;
    this.settle();
    return promise;
  }

  return(): Promise<IteratorResult<T, undefined>> {
    this.#isEnded = true;
    this.#onEnd();
    this.settle();
    return Promise.resolve(done);
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
