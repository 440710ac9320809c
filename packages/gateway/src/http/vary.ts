/** Adds a request header to Vary (RFC 9110, section 12.5.5), without duplicates. */
export function addVary(headers: Record<string, string | string[]>, name: string): void {
  const before = headers["vary"];
  headers["vary"] = before === undefined ? name : mergeVary(before, name);
}

/** One name. */
const single = /^[\w-]+$/;

/** Merges two values of Vary; the first may have been set by a response hook. */
function mergeVary(first: string | readonly string[], second: string): string {
  // The usual case, which occurs for most responses.
  if (typeof first === "string" && single.test(first) && single.test(second)) {
    return first.toLowerCase() === second.toLowerCase() ? first : `${first}, ${second}`;
  }
  const names = new Map<string, string>();
  for (const name of [first, second].flat().join(",").split(",")) {
    const trimmed = name.trim();
    if (trimmed !== "" && !names.has(trimmed.toLowerCase())) {
      names.set(trimmed.toLowerCase(), trimmed);
    }
  }
  // "*" includes every header.
  return names.has("*") ? "*" : [...names.values()].join(", ");
}
