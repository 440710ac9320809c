/** The number of revisions that are removed at once. Limits how long commits wait for a removal. */
export const pruneBatch = 100;

/** Calls `removeBatch` until it has removed less than a batch. Resolves with the number of all removed revisions. */
export async function pruneInBatches(removeBatch: () => Promise<number>): Promise<number> {
  let total = 0;
  for (;;) {
    const removed = await removeBatch();
    total += removed;
    if (removed < pruneBatch) {
      return total;
    }
  }
}
