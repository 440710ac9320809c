/**
 * Finds the least set of elements that have to be inserted or moved to turn one order into another. Returns for each of them the
 * element that precedes it in the target, "" if none does. Elements that only the base has are ignored.
 */
export function diffOrder(base: readonly string[], target: readonly string[]): ReadonlyMap<string, string> {
  const positions = new Map(base.map((id, index) => [id, index]));
  const kept = longestIncreasing(
    target.filter((id) => positions.has(id)),
    (id) => positions.get(id) as number,
  );
  const moves = new Map<string, string>();
  for (const [index, id] of target.entries()) {
    if (!kept.has(id)) {
      moves.set(id, target[index - 1] ?? "");
    }
  }
  return moves;
}

/** A longest subsequence whose ranks increase, found by patience sorting. */
function longestIncreasing(ids: readonly string[], rankOf: (id: string) => number): ReadonlySet<string> {
  /** At each index the element with the smallest rank that ends a subsequence of that length. */
  const ends: string[] = [];
  const predecessors = new Map<string, string | undefined>();
  for (const id of ids) {
    const length = countSmaller(ends, rankOf, rankOf(id));
    predecessors.set(id, ends[length - 1]);
    ends[length] = id;
  }
  const kept = new Set<string>();
  for (let id = ends.at(-1); id !== undefined; id = predecessors.get(id)) {
    kept.add(id);
  }
  return kept;
}

/** Returns the number of sorted elements with a rank below the given one. */
function countSmaller(sorted: readonly string[], rankOf: (id: string) => number, rank: number): number {
  const last = sorted.at(-1);
  if (last === undefined || rankOf(last) < rank) {
    return sorted.length;
  }
  let [low, high] = [0, sorted.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rankOf(sorted[middle] as string) < rank) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}
