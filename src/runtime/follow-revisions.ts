import type { FlowStore } from "../store/store.ts";
import type { Runtime } from "./runtime.ts";

/** Gives the runtime each revision that another process commits; who commits one here applies it. */
export function followRevisions(store: FlowStore, runtime: Pick<Runtime, "apply">): Disposable {
  let { seq } = store.active();
  return store.onRevision(({ revision, isOwn }) => {
    // One that was left out may have been a full deployment.
    const type = revision.seq === seq + 1 ? revision.deploymentType : "full";
    seq = revision.seq;
    if (!isOwn) {
      void runtime.apply(revision, type);
    }
  });
}
