import { parseWeights, type WeightedName } from "./weights.ts";

export const JSON_TYPE = "application/json";
export const FORM_TYPE = "application/x-www-form-urlencoded";
export const MULTIPART_TYPE = "multipart/form-data";

/** The media type of a Content-Type header (RFC 9110, section 8.3.1), in lower case and without parameters. */
export function mediaTypeOf(contentType: string): string {
  const semicolon = contentType.indexOf(";");
  return (semicolon === -1 ? contentType : contentType.slice(0, semicolon)).trim().toLowerCase();
}

/** True if a Content-Type header has no charset parameter, or one that UTF-8 satisfies. */
export function isUtf8Charset(contentType: string): boolean {
  const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(contentType)?.[1]?.toLowerCase();
  return charset === undefined || charset === "utf-8" || charset === "utf8" || charset === "us-ascii";
}

/** True if an Accept header (RFC 9110, section 12.5.1) accepts a media type; the most specific media range decides. */
export function accepts(accept: string | undefined, mediaType: string): boolean {
  return (
    accept === undefined ||
    accept === "*/*" ||
    accept === "" ||
    accept === mediaType ||
    rankOf(parseWeights(accept), mediaType) > 0
  );
}

/** The offer that an Accept header prefers, the first of equal ones; undefined if it accepts none. */
export function preferredOf<T extends { readonly mediaType: string }>(
  accept: string,
  offers: readonly T[],
): T | undefined {
  const ranges = parseWeights(accept);
  let best: T | undefined;
  let bestRank = 0;
  for (const offer of offers) {
    const rank = rankOf(ranges, offer.mediaType);
    if (rank > bestRank) {
      [best, bestRank] = [offer, rank];
    }
  }
  return best;
}

/**
 * Ranks a client's preference for a media type: by the weight of the most specific matching range, then by that range's
 * specificity. 0: not acceptable.
 */
function rankOf(ranges: readonly WeightedName[], mediaType: string): number {
  const group = `${mediaType.slice(0, mediaType.indexOf("/"))}/*`;
  let specificity = 0;
  let weight = 0;
  for (const range of ranges) {
    const specific = range.name === mediaType ? 3 : range.name === group ? 2 : range.name === "*/*" ? 1 : 0;
    if (specific > specificity) {
      specificity = specific;
      weight = range.weight;
    }
  }
  return weight > 0 ? weight * 1000 + specificity / 10 : 0;
}
