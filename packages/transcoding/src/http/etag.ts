/** An entity tag of a request (RFC 9110, section 8.8.3). */
export type ETag = { readonly weak: boolean; readonly value: string };

/** `"value"`; undefined where the value is empty, or can't stand in an entity tag. */
export function formatETag(value: string): string | undefined {
  return /^[\x21\x23-\x7e]+$/.test(value) ? `"${value}"` : undefined;
}

/** What the tag of a compressed form ends with; and that of the body as it is, where its own value ends with one of these. */
const compressed = /-(?:br|gzip|zstd)$/;
const identity = /-identity$/;

/** What a value is in the tag of the body as it is: another than any in the tag of a compressed form. */
export function tagOf(value: string): string {
  return compressed.test(value) || identity.test(value) ? `${value}-identity` : value;
}

/** The value in the tag of whatever form. */
export function valueOf(tag: string): string {
  return tag.replace(compressed, "").replace(identity, "");
}

/** The tags of an If-Match or If-None-Match; "*" for any; undefined where it is neither that nor a list of tags. */
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

/** The one of `tags`, all of one resource, that an If-None-Match names, by weak comparison (section 13.1.2). */
export function findMatch(ifNoneMatch: string, tags: readonly string[]): string | undefined {
  const [first] = tags;
  if (ifNoneMatch === first) {
    return first;
  }
  const asked = parseETags(ifNoneMatch);
  return asked === "*" ? first : tags.find((tag) => asked?.some(({ value }) => `"${value}"` === tag));
}
