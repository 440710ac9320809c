/**
 * The order of merged nodes: that of the side which changed the order of existing nodes, `ours` if both did. Each node that only
 * the other side has is inserted after the one that precedes it there.
 */
export function mergeOrder(
  base: readonly string[],
  ours: readonly string[],
  theirs: readonly string[],
  merged: ReadonlyMap<string, unknown>,
): string[] {
  const [primary, secondary] = isReordered(base, ours) ? [ours, theirs] : [theirs, ours];
  const known = new Set(primary);
  const insertions = new Map<string, string[]>();
  let predecessor = "";
  for (const id of secondary.filter((each) => merged.has(each))) {
    if (known.has(id)) {
      predecessor = id;
    } else {
      const inserted = insertions.get(predecessor) ?? [];
      inserted.push(id);
      insertions.set(predecessor, inserted);
    }
  }
  const kept = primary.filter((id) => merged.has(id));
  return [...(insertions.get("") ?? []), ...kept.flatMap((id) => [id, ...(insertions.get(id) ?? [])])];
}

/** Whether the nodes that both have are in different orders. */
function isReordered(base: readonly string[], side: readonly string[]): boolean {
  const [inBase, inSide] = [new Set(base), new Set(side)];
  const before = base.filter((id) => inSide.has(id));
  return !side.filter((id) => inBase.has(id)).every((id, index) => id === before[index]);
}
