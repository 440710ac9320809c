import type { Logger } from "pino";
import { createRerun } from "@flowgate/base/rerun";
import type { FlowStore, Retention } from "../store/flow-store.ts";

const intervalMs = 24 * 60 * 60_000;

/** Not at the start, when the thread that writes would take memory and time of the processor from it. */
const firstMs = 60_000;

/** Removes revisions that exceed the limits: a minute after the start, after each commit, and daily. Disposing ends that. */
export function openRetention(store: FlowStore, retention: Retention, log: Logger): Disposable {
  const prune = createRerun(async () => {
    try {
      const removed = await store.prune(retention);
      if (removed > 0) {
        log.debug({ removed }, "revisions were removed from the history");
      }
    } catch (err) {
      log.warn({ err }, "revisions could not be removed from the history");
    }
  });

  const stack = new DisposableStack();
  const first = setTimeout(() => void prune(), firstMs).unref();
  stack.defer(() => clearTimeout(first));
  const timer = setInterval(() => void prune(), intervalMs).unref();
  stack.defer(() => clearInterval(timer));
  stack.use(store.onRevision(() => void prune()));
  return stack;
}
