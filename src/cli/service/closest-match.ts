/** Returns the word most similar to the given one, or one that begins with it; undefined: none is similar enough. */
export function closestMatch(word: string, words: readonly string[]): string | undefined {
  const [best] = words
    .map((candidate) => ({ candidate, edits: distance(word.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ candidate, edits }) => edits <= Math.min(3, Math.floor(candidate.length / 2)))
    .toSorted((a, b) => a.edits - b.edits);
  return best?.candidate ?? (word.length < 4 ? undefined : words.find((candidate) => candidate.startsWith(word)));
}

/** The Levenshtein distance: the number of characters to be inserted, deleted or replaced. */
function distance(from: string, to: string): number {
  // Skips the computation for a much longer word, which can't be similar.
  if (Math.abs(from.length - to.length) > to.length) {
    return Number.POSITIVE_INFINITY;
  }
  let row = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (const [line, character] of from.split("").entries()) {
    const next = [line + 1];
    for (let at = 0; at < to.length; at += 1) {
      const replaced = (row[at] ?? 0) + (character === to[at] ? 0 : 1);
      next.push(Math.min(replaced, (row[at + 1] ?? 0) + 1, (next[at] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
