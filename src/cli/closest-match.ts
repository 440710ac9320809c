/** The one of `words` that `word` was probably meant to be: a similar one, or one that it is the beginning of. */
export function closestMatch(word: string, words: readonly string[]): string | undefined {
  const [best] = words
    .map((candidate) => ({ candidate, edits: distance(word.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ candidate, edits }) => edits <= Math.min(3, Math.floor(candidate.length / 2)))
    .toSorted((a, b) => a.edits - b.edits);
  return best?.candidate ?? (word.length < 4 ? undefined : words.find((candidate) => candidate.startsWith(word)));
}

/** Levenshtein's: how many characters must be added, removed or changed. */
function distance(from: string, to: string): number {
  // What is far longer is not near: no need to count.
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
