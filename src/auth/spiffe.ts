// SPIFFE-ID, section 2: lower case alone is equal to itself in every reader's eyes.
const trustDomain = String.raw`spiffe://[a-z0-9._-]{1,255}`;
const path = String.raw`(?:/(?!\.{1,2}(?:/|$))[a-zA-Z0-9._-]+)`;
const workload = new RegExp(`^${trustDomain}${path}+$`);
const pattern = new RegExp(`^${trustDomain}(?:${path}+|${path}*/\\*)$`);
const maxBytes = 2048;

/**
 * Whether this is the SPIFFE ID of a workload, in the one form that compares byte by byte. It has a path
 * (X509-SVID, section 3.1), and neither query, fragment, port, user, escapes nor empty segments.
 */
export function isSpiffeId(text: string): boolean {
  return text.length <= maxBytes && workload.test(text);
}

/** The same, or one that ends in `/*` and so means all that begin like it. */
export function isSpiffePattern(text: string): boolean {
  return text.length <= maxBytes && pattern.test(text);
}
