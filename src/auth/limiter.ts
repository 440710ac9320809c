import { hash } from "node:crypto";
import { clientKeyOf } from "./client-key.ts";

/** A login attempt whose password may be checked. Exactly one of the methods must be called once. */
export interface Attempt {
  /** The password was correct: resets the failures of the user. */
  succeed(): void;
  /** The password was wrong. */
  fail(): void;
  /** The check failed with an error: the attempt does not count. */
  abandon(): void;
}

export interface Limiter {
  /**
   * Resolves to an attempt, or to the number of seconds after which to retry. Attempts in progress count as failed, so
   * that a burst can't exceed the limits. An attempt that only those would block waits for them.
   */
  begin(username: string, address: string): Promise<Attempt | number>;
}

const windowMs = 10 * 60_000;
const maxFailuresPerUser = 5;
const maxFailuresPerClient = 50;
/** The number of password checks that it takes to evict a name. */
const maxEntries = 10_000;
const maxWaiting = 100;

type Entry = { failedAtMs: number[]; inFlight: number };

/**
 * Called when a user or client is locked out, with the address of the last attempt. The user name is not passed on to be
 * logged, since it may be a mistyped password.
 */
export type OnLockOut = (locked: "user" | "client", address: string) => void;

/** Limits failed login attempts per user name, whether the user exists or not, and per client. */
export function createLimiter(now: () => number, onLockOut: OnLockOut = () => {}): Limiter {
  const users = createFailureCounter(maxFailuresPerUser, now);
  const clients = createFailureCounter(maxFailuresPerClient, now);
  let waiting = 0;
  let settled = Promise.withResolvers<void>();

  return {
    async begin(username, address) {
      // Hashed to bound the memory that long names take.
      const user = hash("sha256", username);
      const client = clientKeyOf(address);
      for (;;) {
        const seconds = Math.max(users.blockedSeconds(user), clients.blockedSeconds(client));
        if (seconds > 0) {
          return seconds;
        }
        if (users.hasRoom(user) && clients.hasRoom(client)) {
          break;
        }
        if (waiting >= maxWaiting) {
          return 1;
        }
        waiting += 1;
        await settled.promise;
        waiting -= 1;
      }
      users.start(user);
      clients.start(client);

      const settle = (failed: boolean, clear: boolean): void => {
        users.finish(user, failed);
        clients.finish(client, failed);
        if (clear) {
          users.clear(user);
        }
        if (failed && users.blockedSeconds(user) > 0) {
          onLockOut("user", address);
        }
        if (failed && clients.blockedSeconds(client) > 0) {
          onLockOut("client", address);
        }
        settled.resolve();
        settled = Promise.withResolvers();
      };
      return {
        succeed: () => settle(false, true),
        fail: () => settle(true, false),
        abandon: () => settle(false, false),
      };
    },
  };
}

/** Counts the failed attempts within the window and those in progress, for a bounded number of keys. */
function createFailureCounter(max: number, now: () => number) {
  const entries = new Map<string, Entry>();

  const recent = (key: string): Entry => {
    const entry = entries.get(key) ?? { failedAtMs: [], inFlight: 0 };
    const since = now() - windowMs;
    entry.failedAtMs = entry.failedAtMs.filter((atMs) => atMs > since);
    return entry;
  };

  const keep = (key: string, entry: Entry): void => {
    // Reinserting makes the Map an LRU cache, from which the first entry is evicted.
    entries.delete(key);
    if (entry.inFlight === 0 && entry.failedAtMs.length === 0) {
      return;
    }
    if (entries.size >= maxEntries) {
      const oldest = entries.entries().find(([, { inFlight }]) => inFlight === 0);
      if (oldest !== undefined) {
        entries.delete(oldest[0]);
      }
    }
    entries.set(key, entry);
  };

  return {
    blockedSeconds(key: string): number {
      const { failedAtMs } = recent(key);
      const [oldest] = failedAtMs;
      return oldest === undefined || failedAtMs.length < max ? 0 : Math.ceil((oldest + windowMs - now()) / 1000);
    },
    hasRoom(key: string): boolean {
      const { failedAtMs, inFlight } = recent(key);
      return failedAtMs.length + inFlight < max;
    },
    start(key: string): void {
      const entry = recent(key);
      entry.inFlight += 1;
      keep(key, entry);
    },
    finish(key: string, failed: boolean): void {
      const entry = recent(key);
      entry.inFlight -= 1;
      if (failed) {
        entry.failedAtMs.push(now());
      }
      keep(key, entry);
    },
    clear(key: string): void {
      const entry = recent(key);
      entry.failedAtMs = [];
      keep(key, entry);
    },
  };
}
