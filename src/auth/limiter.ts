import { hash } from "node:crypto";
import { clientKeyOf } from "./client-key.ts";

/** A login that may go on to check its password. Settle it once, however it ends. */
export interface Attempt {
  /** The password was right: the user's failures are forgotten. */
  succeed(): void;
  /** It was not. */
  fail(): void;
  /** No one knows: it counts for nothing. */
  abandon(): void;
}

export interface Limiter {
  /**
   * Resolves to a try, or to the seconds until it is worth another one. Tries whose password is being
   * checked count as failed as long as that takes, so that no burst slips past the limits; a try that
   * only these stand in the way of waits for them.
   */
  begin(username: string, address: string): Promise<Attempt | number>;
}

const windowMs = 10 * 60_000;
const maxOfUser = 5;
const maxOfSource = 50;
/** Flooding a name out of memory takes as many password checks as this. */
const maxEntries = 10_000;
const maxWaiting = 100;

type Entry = { failedAtMs: number[]; inFlight: number };

/** Told whose tries are refused from now on, and where the last one came from; no name, for it may be a mistyped password. */
export type OnLockOut = (locked: "user" | "client", address: string) => void;

/** Counts failed tries, of users that exist and of those that don't, and of where they come from. */
export function createLimiter(now: () => number, onLockOut: OnLockOut = () => {}): Limiter {
  const users = createFailures(maxOfUser, now);
  const sources = createFailures(maxOfSource, now);
  let waiting = 0;
  let settled = Promise.withResolvers<void>();

  return {
    async begin(username, address) {
      // Of a fixed size, however long the name is that was sent.
      const user = hash("sha256", username);
      const source = clientKeyOf(address);
      for (;;) {
        const seconds = Math.max(users.blockedSeconds(user), sources.blockedSeconds(source));
        if (seconds > 0) {
          return seconds;
        }
        if (users.hasRoom(user) && sources.hasRoom(source)) {
          break;
        }
        if (waiting >= maxWaiting) {
          return 1;
        }
        waiting += 1;
        await settled.promise;
        waiting -= 1;
      }
      users.enter(user);
      sources.enter(source);

      const settle = (failed: boolean, clear: boolean): void => {
        users.leave(user, failed);
        sources.leave(source, failed);
        if (clear) {
          users.clear(user);
        }
        if (failed && users.blockedSeconds(user) > 0) {
          onLockOut("user", address);
        }
        if (failed && sources.blockedSeconds(source) > 0) {
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

/** The failed tries of each key within the window, and those in flight. Holds a bounded number of keys. */
function createFailures(max: number, now: () => number) {
  const entries = new Map<string, Entry>();

  const recent = (key: string): Entry => {
    const entry = entries.get(key) ?? { failedAtMs: [], inFlight: 0 };
    const since = now() - windowMs;
    entry.failedAtMs = entry.failedAtMs.filter((atMs) => atMs > since);
    return entry;
  };

  const keep = (key: string, entry: Entry): void => {
    // Last in the Map is touched last: the first ones go first when it is full.
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
    enter(key: string): void {
      const entry = recent(key);
      entry.inFlight += 1;
      keep(key, entry);
    },
    leave(key: string, failed: boolean): void {
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
