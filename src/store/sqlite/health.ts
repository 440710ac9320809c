import { DatabaseHealth } from "../store.ts";
import { isInDoubt, SQLITE_BUSY, SQLITE_CONSTRAINT, SQLITE_FULL, sqliteCode } from "./errors.ts";

const retryMs = 1000;

/**
 * A database is usable until an operation fails because of it, and again as soon as `recover`, called every second, resolves. It
 * must check that the database can be used.
 */
export class RecoveringHealth extends DatabaseHealth {
  readonly #recover: () => Promise<void>;
  #timer: NodeJS.Timeout | undefined;
  #isRecovering = false;
  #isClosed = false;

  constructor(recover: () => Promise<void>) {
    super();
    this.#recover = recover;
  }

  recordError(error: unknown): void {
    const message = describe(error);
    if (!this.#isClosed && message !== undefined) {
      this.#timer ??= setInterval(() => void this.#retry(), retryMs).unref();
      this.set({ isUsable: false, message });
    }
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#timer);
    this.set({ isUsable: false, message: "the store is closed" });
  }

  async #retry(): Promise<void> {
    if (this.#isRecovering) {
      return;
    }
    this.#isRecovering = true;
    try {
      await this.#recover();
      if (!this.#isClosed) {
        clearInterval(this.#timer);
        this.#timer = undefined;
        this.set({ isUsable: true });
      }
    } catch (error) {
      this.recordError(error);
    } finally {
      this.#isRecovering = false;
    }
  }
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
