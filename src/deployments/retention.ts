import type { Logger } from "pino";
import type { FlowStore, Retention } from "../store/store.ts";

const intervalMs = 24 * 60 * 60_000;

/** Removes revisions that exceed the limits: now, after each commit, and daily. Disposing ends that. */
export function openRetention(store: FlowStore, retention: Retention, log: Logger): Disposable {
  let isPruning = false;
  let isRequested = false;

  async function prune(): Promise<void> {
    isRequested = true;
    if (isPruning) {
      return;
    }
    isPruning = true;
    try {
      while (isRequested) {
        isRequested = false;
        const removed = await store.prune(retention);
        if (removed > 0) {
          log.debug({ removed }, "revisions were removed from the history");
        }
      }
    } catch (err) {
      log.warn({ err }, "revisions could not be removed from the history");
    } finally {
      isPruning = false;
    }
  }

  const stack = new DisposableStack();
  const timer = setInterval(() => void prune(), intervalMs).unref();
  stack.defer(() => clearInterval(timer));
  stack.use(store.onRevision(() => void prune()));
  void prune();
  return stack;
}
