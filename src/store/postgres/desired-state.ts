import type { DesiredStateStore } from "../desired-state.ts";
import { findDesiredState, KnownState, setDesiredState } from "../sql/desired-state.ts";
import type { Changes } from "./changes.ts";
import type { Database } from "./database.ts";

/** A state that several replicas change. */
export async function createSharedDesiredState(database: Database, changes: Changes): Promise<DesiredStateStore> {
  const known = new KnownState(await findDesiredState(database.query));
  changes.onChange(async ({ desiredSeq }) => {
    if ((desiredSeq ?? 0) !== known.seq) {
      known.replace(await findDesiredState(database.query));
    }
  });
  return {
    current: () => known.state,
    async set(isStarted, entry) {
      const written = await database.transaction(async (query) => {
        const state = await setDesiredState(query, { isStarted, entry });
        await changes.announce(query);
        return state;
      });
      // Another replica may have changed it again, which was read meanwhile.
      if (written.seq > known.seq) {
        known.replace(written);
      }
      return known.state;
    },
    onChange: (listener) => known.onChange(listener),
  };
}
