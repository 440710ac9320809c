// SPIFFE-ID, section 2: scheme and trust domain are case-insensitive. Only lower case is accepted, so that equal IDs are
// equal strings.
const trustDomain = String.raw`spiffe://[a-z0-9._-]{1,255}`;
const path = String.raw`(?:/(?!\.{1,2}(?:/|$))[a-zA-Z0-9._-]+)`;
const workload = new RegExp(`^${trustDomain}${path}+$`);
const pattern = new RegExp(`^${trustDomain}(?:${path}+|${path}*/\\*)$`);
const maxBytes = 2048;

/**
 * Whether this is the SPIFFE ID of a workload in canonical form. It must have a path (X509-SVID, section 3.1), and must
 * not have a query, fragment, port, user, percent-encoding or empty segments.
 */
export function isSpiffeId(text: string): boolean {
  return text.length <= maxBytes && workload.test(text);
}

/** Whether this is a SPIFFE ID of a workload, or a prefix of such IDs that ends in `/*`. */
export function isSpiffePattern(text: string): boolean {
  return text.length <= maxBytes && pattern.test(text);
}
