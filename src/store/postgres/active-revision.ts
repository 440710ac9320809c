import { createListeners } from "../../base/listeners.ts";
import type { FlowStore, RevisionEvent } from "../flow-store.ts";
import type { Revision } from "../revision.ts";
import { type ChangeCounts, type Changes, readCounts } from "./changes.ts";
import type { Database } from "./database.ts";
import { isLost, replaceLost } from "./lost-revision.ts";
import { readExistingRevision } from "./read-revision.ts";

/** The newest known revision, in memory. */
export interface ActiveRevision extends Pick<FlowStore, "active" | "reload" | "onRevision"> {
  /** Makes the revision the active one, and reports it, if it is newer. */
  activate(revision: Revision, isOwn: boolean): void;
  /**
   * Runs a commit of this store, which activates its revision itself. Revisions of other replicas become active afterwards,
   * since they may be newer.
   */
  duringCommit<T>(commit: () => Promise<T>): Promise<T>;
}

/** Follows what other replicas commit. `key` decrypts the credentials. */
export async function openActiveRevision(database: Database, changes: Changes, key: Buffer): Promise<ActiveRevision> {
  const { query } = database;
  const listeners = createListeners<RevisionEvent>();
  const readNewest = ({ rev }: ChangeCounts): Promise<Revision> => readExistingRevision(query, rev, key);
  // Read here, so that a wrong key or a damaged document is an error at the start.
  let active = await readNewest(changes.latest());
  let { reloads } = changes.latest();
  const commits = new Set<Promise<unknown>>();

  function activate(revision: Revision, isOwn: boolean): void {
    if (revision.seq > active.seq) {
      active = revision;
      listeners.notify({ revision, isOwn });
    }
  }

  async function follow(counts: ChangeCounts): Promise<void> {
    // A revision of this store that is newer may follow after one of another replica.
    await Promise.allSettled(commits);
    if (counts.seq > active.seq) {
      activate(await readNewest(counts), false);
    } else if (counts.rev !== active.rev && (await isLost(query, active.rev))) {
      const replacement = await replaceLost(database, changes, { lost: active, newestRev: counts.rev, key });
      // If another replica has made it, the next read notices its commit.
      if (replacement !== undefined) {
        activate(replacement, false);
      }
    }
    // Counts from before a reload by this store may arrive after it.
    if (counts.reloads > reloads) {
      ({ reloads } = counts);
      listeners.notify({ revision: active, isOwn: false, isReload: true });
    }
  }
  changes.onChange(follow);

  return {
    active: () => active,
    activate,

    async duringCommit(commit) {
      const committing = commit();
      commits.add(committing);
      try {
        return await committing;
      } finally {
        commits.delete(committing);
      }
    },

    async reload() {
      const revision = await readNewest(await readCounts(query));
      await database.transaction(async (query) => {
        const [row] = await query<{ reloads: number }>(
          "UPDATE flowgate.change SET reloads = reloads + 1 RETURNING reloads",
        );
        // Not reported to the listeners of this store, which restarts its nodes itself.
        reloads = Math.max(reloads, row?.reloads ?? 0);
        await changes.announce(query);
      });
      activate(revision, false);
      return revision;
    },

    onRevision: (listener) => listeners.add(listener),
  };
}
