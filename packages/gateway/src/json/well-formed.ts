import { formatPath } from "./path.ts";

/** Returns the path of the first string or key of a JSON value that has a lone surrogate; undefined if there is none. */
export function findLoneSurrogate(value: unknown): (string | number)[] | undefined {
  if (typeof value === "string") {
    return value.isWellFormed() ? undefined : [];
  }
  if (typeof value !== "object" || value === null) {
    return undefined;
  }
  for (const key in value) {
    const path = key.isWellFormed() ? findLoneSurrogate((value as Record<string, unknown>)[key]) : [];
    if (path !== undefined) {
      return [Array.isArray(value) ? Number(key) : key, ...path];
    }
  }
  return undefined;
}

/** JSON.stringify for messages. Throws a RangeError for a string or key with a lone surrogate, which is not valid Unicode. */
export function formatJson(value: unknown): string {
  const text = JSON.stringify(value);
  // Lone surrogates are escaped, pairs of them are not.
  const path = text.includes("\\ud") ? findLoneSurrogate(value) : undefined;
  if (path !== undefined) {
    throw new RangeError(`${formatPath(path)}: a string with a lone surrogate`);
  }
  return text;
}
