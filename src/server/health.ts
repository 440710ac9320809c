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
  readonly draining: boolean;
  /** Makes everything permanently not ready, so that load balancers send calls elsewhere. */
  drain(): void;
  /** Whether a service can take calls; "" is the process as a whole. */
  readonly serves: (service: string) => boolean;
  /** Calls the listener after each change. */
  readonly onChange: (listener: () => void) => void;
}

export function createHealth({ ready, onReadyChange }: ReadinessOptions): Health {
  const listeners: (() => void)[] = [];
  let draining = false;
  /** Cached until the next change, since every watch reads it after a change. */
  let cached: Readiness | undefined;
  const changed = (): void => {
    cached = undefined;
    listeners.forEach((listener) => listener());
  };
  onReadyChange?.(changed);

  const readiness = (): Readiness => (draining ? { ...ready(), ready: false } : ready());
  return {
    readiness,
    get draining() {
      return draining;
    },
    drain() {
      draining = true;
      changed();
    },
    serves(service) {
      cached ??= readiness();
      const { ready, notServing } = cached;
      if (service === "" || draining || notServing === undefined) {
        return ready;
      }
      return !notServing.includes(service);
    },
    onChange: (listener) => void listeners.push(listener),
  };
}
