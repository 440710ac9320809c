/** Replaces U+0000, which PostgreSQL's text can't contain, so that stores can be copied. Other values are returned unchanged. */
export function toPortable<T>(value: T): T | string {
  return typeof value === "string" ? value.replaceAll("\0", "\ufffd") : value;
}
