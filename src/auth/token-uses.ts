import type { Logger } from "pino";
import type { StoredToken, TokenStore } from "../store/token-store.ts";

export interface TokenUses {
  /** Called at each authenticated call. */
  record(token: StoredToken, nowMs: number): void;
}

/** Writes the time of the last use of tokens together, at most once a minute. Disposing writes the remaining ones. */
export function openTokenUses(
  store: Pick<TokenStore, "recordUses">,
  log: Logger,
  intervalMs = 60_000,
): TokenUses & AsyncDisposable {
  let uses = new Map<string, number>();
  let timer: NodeJS.Timeout | undefined;

  async function write(): Promise<void> {
    timer = undefined;
    const written = uses;
    uses = new Map();
    try {
      await store.recordUses(written);
    } catch (error) {
      // The tokens stay valid, and their next use is written again.
      log.warn({ err: error }, "the last use of tokens could not be written");
    }
  }

  return {
    record({ id }, nowMs) {
      uses.set(id, nowMs);
      timer ??= setTimeout(() => void write(), intervalMs).unref();
    },
    async [Symbol.asyncDispose]() {
      clearTimeout(timer);
      if (uses.size > 0) {
        await write();
      }
    },
  };
}
