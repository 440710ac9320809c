import { HealthWatch } from "./health-watch.ts";

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
  const watches = new Set<Pick<HealthWatch<object>, "settle" | "close">>();
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
      const watch = new HealthWatch(read, () => {
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
