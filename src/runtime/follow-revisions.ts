import type { FlowStore } from "../store/flow-store.ts";
import type { Runtime } from "./runtime.ts";

/**
 * Applies each revision that another process commits, and reloads the flows when another process does. Revisions of this
 * process are applied by the service that commits them. Disposing ends the subscription.
 */
export function followRevisions(
  store: Pick<FlowStore, "active" | "onRevision">,
  runtime: Pick<Runtime, "apply">,
): Disposable {
  let { seq } = store.active();
  return store.onRevision(({ revision, isOwn, isReload = false }) => {
    // A skipped revision may have been a full deployment.
    const type = revision.seq === seq + 1 ? revision.deploymentType : "full";
    seq = revision.seq;
    if (!isOwn) {
      void runtime.apply(revision, isReload ? "reload" : type);
    }
  });
}
