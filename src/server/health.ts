import { type HealthSource, HealthWatch } from "@flowgate/gateway/server";
import { FlowgateError } from "../errors.ts";

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
export interface Health extends HealthSource {
  /** The result of `ready`; never ready while draining. */
  readiness(): Readiness;
  readonly draining: boolean;
  /** Makes everything permanently not ready, so that load balancers send calls elsewhere. */
  drain(): void;
  /** Ends all watches with an error. */
  close(): void;
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
      watches.forEach((watch) => watch.close(closing()));
    },
    watch(read, onEnd) {
      const watch = new HealthWatch(read, () => {
        if (watches.delete(watch)) {
          onEnd();
        }
      });
      watches.add(watch);
      if (closed) {
        watch.close(closing());
      }
      return watch;
    },
    watches: () => watches.size,
  };
}

function closing(): FlowgateError {
  return new FlowgateError("unavailable", "the service is closing");
}
