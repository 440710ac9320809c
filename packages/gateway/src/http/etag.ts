/** An entity tag (RFC 9110, section 8.8.3). */
export type ETag = { readonly weak: boolean; readonly value: string };

/** Formats a strong entity tag, `"value"`. Returns undefined if the value is empty or has characters that an entity tag can't contain. */
export function formatETag(value: string): string | undefined {
  return /^[\x21\x23-\x7e]+$/.test(value) ? `"${value}"` : undefined;
}

/** The suffix of the entity tag of a compressed representation. */
const compressed = /-(?:br|gzip|zstd)$/;
/** The suffix of the entity tag of an uncompressed representation whose value ends with one of these suffixes. */
const identity = /-identity$/;

/** The opaque tag of the uncompressed representation; it never equals the tag of a compressed one. */
export function tagOf(value: string): string {
  return compressed.test(value) || identity.test(value) ? `${value}-identity` : value;
}

/** The value that an opaque tag was made from; the inverse of `tagOf`. Accepts tags of compressed representations. */
export function valueOf(tag: string): string {
  return tag.replace(compressed, "").replace(identity, "");
}

/** Parses an If-Match or If-None-Match header. Returns undefined if it is neither `*` nor a list of entity tags. */
export function parseETags(header: string): ETag[] | "*" | undefined {
  const text = header.trim();
  if (text === "*") {
    return "*";
  }
  if (!/^(?:[\s,]*(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"[\s]*(?:,|$))+[\s,]*$/.test(text)) {
    return undefined;
  }
  return [...text.matchAll(/(W\/)?"([^"]*)"/g)].map(([, weak, value = ""]) => ({ weak: weak !== undefined, value }));
}

/** Returns the first of a resource's `tags` that If-None-Match contains, by weak comparison (RFC 9110, section 13.1.2). */
export function findMatch(ifNoneMatch: string, tags: readonly string[]): string | undefined {
  const parsed = parseETags(ifNoneMatch);
  return parsed === "*" ? tags[0] : tags.find((tag) => parsed?.some(({ value }) => `"${value}"` === tag));
}
