/**
 * Says that the answer depends on a request header (RFC 9110, section 12.5.5). There is one Vary, which names
 * each header once.
 */
export function addVary(headers: Record<string, string | string[]>, name: string): void {
  const before = headers["vary"];
  headers["vary"] = before === undefined ? name : mergeVary(before, name);
}

/** One value of two; a response hook may have set one already. */
function mergeVary(first: string | readonly string[], second: string | readonly string[]): string {
  const names = new Map<string, string>();
  for (const name of [first, second].flat().join(",").split(",")) {
    const trimmed = name.trim();
    if (trimmed !== "" && !names.has(trimmed.toLowerCase())) {
      names.set(trimmed.toLowerCase(), trimmed);
    }
  }
  // It depends on more than headers, and so names none.
  return names.has("*") ? "*" : [...names.values()].join(", ");
}
