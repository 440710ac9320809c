/** The key by which login attempts are counted: a user name or a client. */
export type AttemptLimit = {
  /** A hash, which bounds its size. */
  readonly key: string;
  /** The number of failed attempts within the window after which the key is blocked. */
  readonly max: number;
  /** True if a successful attempt resets the failures of this key. */
  readonly isReset: boolean;
};

export type AttemptReply =
  | { readonly kind: "begun"; readonly attempt: LoginAttempt }
  /** Failed attempts have reached a limit, for this time. */
  | { readonly kind: "blocked"; readonly forMs: number }
  /** Failed and running attempts have reached a limit. */
  | { readonly kind: "busy" };

export type LoginAttempt = {
  /**
   * Must be called once. A failed attempt counts from now on for the window, an abandoned one never. Resolves with the keys
   * that are blocked now.
   */
  end(outcome: "succeeded" | "failed" | "abandoned"): Promise<readonly string[]>;
};

/** Counts login attempts, together for all processes that use the store. */
export interface LoginAttempts {
  /**
   * Begins an attempt that counts for all the keys, or for none if one of them has reached its limit. Concurrent attempts
   * can't exceed a limit, also from several processes: one in progress counts as failed. An attempt of a process that has
   * exited counts as failed too.
   */
  begin(limits: readonly AttemptLimit[], windowMs: number): Promise<AttemptReply>;
}

/** The number of password checks that it takes to evict a key. */
const maxEntries = 10_000;

/** Keeps failed attempts beyond the end of the process. */
type AttemptLog = {
  /** The failed attempts of earlier processes, oldest first. */
  readonly failed: readonly { readonly key: string; readonly atMs: number }[];
  /** Records a failed attempt, and forgets attempts before `sinceMs`. */
  record(keys: readonly string[], atMs: number, sinceMs: number): Promise<void>;
  /** Forgets the failed attempts of these keys. */
  reset(keys: readonly string[]): Promise<void>;
};

const noLog: AttemptLog = { failed: [], async record() {}, async reset() {} };

type Entry = { failedAtMs: number[]; inProgress: number };

/** Counts attempts in memory, for a store that only one process uses. A success writes to the log only if it resets failures. */
export function createMemoryAttempts(now: () => number = Date.now, log = noLog): LoginAttempts {
  const entries = new Map<string, Entry>();

  function recent(key: string, windowMs: number): Entry {
    const { failedAtMs, inProgress } = entries.get(key) ?? { failedAtMs: [], inProgress: 0 };
    const sinceMs = now() - windowMs;
    return { failedAtMs: failedAtMs.filter((atMs) => atMs > sinceMs), inProgress };
  }

  function keep(key: string, entry: Entry): void {
    // Reinserting makes the Map an LRU cache, from which the first entry is evicted.
    entries.delete(key);
    if (entry.inProgress === 0 && entry.failedAtMs.length === 0) {
      return;
    }
    if (entries.size >= maxEntries) {
      const oldest = entries.entries().find(([, { inProgress }]) => inProgress === 0);
      if (oldest !== undefined) {
        entries.delete(oldest[0]);
      }
    }
    entries.set(key, entry);
  }

  /** Returns the time for which failed attempts block the key; 0: they don't. */
  function blockedMs({ key, max }: AttemptLimit, windowMs: number): number {
    const { failedAtMs } = recent(key, windowMs);
    const [oldest] = failedAtMs;
    return oldest === undefined || failedAtMs.length < max ? 0 : oldest + windowMs - now();
  }

  for (const { key, atMs } of log.failed) {
    const entry = entries.get(key) ?? { failedAtMs: [], inProgress: 0 };
    // The clock may have been set back.
    entry.failedAtMs.push(Math.min(atMs, now()));
    keep(key, entry);
  }

  return {
    async begin(limits, windowMs) {
      const forMs = Math.max(...limits.map((limit) => blockedMs(limit, windowMs)));
      if (forMs > 0) {
        return { kind: "blocked", forMs };
      }
      const counted = limits.map((limit) => ({ ...limit, entry: recent(limit.key, windowMs) }));
      if (counted.some(({ max, entry }) => entry.failedAtMs.length + entry.inProgress >= max)) {
        return { kind: "busy" };
      }
      for (const { key, entry } of counted) {
        entry.inProgress += 1;
        keep(key, entry);
      }
      return {
        kind: "begun",
        attempt: {
          async end(outcome) {
            const atMs = now();
            const reset: string[] = [];
            for (const { key, isReset } of limits) {
              const entry = recent(key, windowMs);
              entry.inProgress -= 1;
              if (outcome === "failed") {
                entry.failedAtMs.push(atMs);
              } else if (outcome === "succeeded" && isReset && entry.failedAtMs.length > 0) {
                entry.failedAtMs = [];
                reset.push(key);
              }
              keep(key, entry);
            }
            if (outcome === "failed") {
              await log.record(
                limits.map(({ key }) => key),
                atMs,
                atMs - windowMs,
              );
            } else if (reset.length > 0) {
              await log.reset(reset);
            }
            return limits.filter((limit) => blockedMs(limit, windowMs) > 0).map(({ key }) => key);
          },
        },
      };
    },
  };
}
