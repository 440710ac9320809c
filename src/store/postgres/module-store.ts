import { createListeners } from "../../base/listeners.ts";
import type { ModuleStore } from "../module-store.ts";
import { recordModules } from "../sql/modules.ts";
import { type Access, createModuleStore } from "../sql/stores.ts";
import type { Changes } from "./changes.ts";
import type { Database } from "./database.ts";

/** The modules of revisions, which several replicas change. */
export function createSharedModuleStore(database: Database, access: Access, changes: Changes): ModuleStore {
  const listeners = createListeners<void>();
  let known = changes.latest();
  changes.onChange((counts) => {
    const isChange = counts.rev === known.rev && counts.moduleSetSeq !== known.moduleSetSeq;
    known = counts;
    if (isChange) {
      listeners.notify();
    }
  });
  return {
    ...createModuleStore(access),
    record: (rev, modules, before) =>
      database.transaction(async (query) => {
        const isRecorded = await recordModules(query, { rev, modules, before });
        await changes.announce(query);
        return isRecorded;
      }),
    onChange: (listener) => listeners.add(listener),
  };
}
