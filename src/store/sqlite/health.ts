import { createListeners } from "../../base/listeners.ts";
import type { Store, StoreHealth } from "../store.ts";
import { isInDoubt, SQLITE_BUSY, SQLITE_CONSTRAINT, SQLITE_FULL, sqliteCode } from "./errors.ts";

const retryMs = 1000;

export interface Health extends Pick<Store, "health" | "onHealthChange"> {
  /** Records an error of an operation. */
  recordError(error: unknown): void;
  close(): void;
}

/**
 * A database is usable until an operation fails because of it, and again as soon as `recover`, called every second, resolves. It
 * must check that the database can be used.
 */
export function createHealth(recover: () => Promise<void>): Health {
  const listeners = createListeners<void>();
  let health: StoreHealth = { isUsable: true };
  let timer: NodeJS.Timeout | undefined;
  let isRecovering = false;
  let isClosed = false;

  function setHealth(next: StoreHealth): void {
    health = next;
    listeners.notify();
  }

  async function retry(): Promise<void> {
    if (isRecovering) {
      return;
    }
    isRecovering = true;
    try {
      await recover();
      if (!isClosed) {
        clearInterval(timer);
        timer = undefined;
        setHealth({ isUsable: true });
      }
    } catch (error) {
      recordError(error);
    } finally {
      isRecovering = false;
    }
  }

  function recordError(error: unknown): void {
    const message = describe(error);
    if (isClosed || message === undefined || (!health.isUsable && health.message === message)) {
      return;
    }
    timer ??= setInterval(() => void retry(), retryMs).unref();
    setHealth({ isUsable: false, message });
  }

  return {
    health: () => health,
    onHealthChange: (listener) => listeners.add(listener),
    recordError,
    close() {
      isClosed = true;
      clearInterval(timer);
      setHealth({ isUsable: false, message: "the store is closed" });
    },
  };
}

/** Undefined if the database did not cause the error. */
function describe(error: unknown): string | undefined {
  if (isInDoubt(error)) {
    return "the disk has failed during a commit, whose outcome is unknown: the database is opened anew";
  }
  const code = sqliteCode(error);
  switch (code) {
    case undefined:
    case SQLITE_BUSY:
    case SQLITE_CONSTRAINT:
      return undefined;
    case SQLITE_FULL:
      return "the database's disk is full";
    default:
      return `the database can't be used (SQLite's error ${code})`;
  }
}
