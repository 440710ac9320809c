import type { X509Certificate } from "node:crypto";
import { invalidIdentity } from "./errors.ts";

/**
 * The SPIFFE ID of a verified client certificate (X509-SVID, section 5.2); undefined if it has no URI. Throws
 * `invalid_identity` if it has several URIs or one that is not a SPIFFE ID, or is a CA certificate.
 */
export function workloadOfCertificate(certificate: X509Certificate): string | undefined {
  const uris = urisOf(certificate.subjectAltName ?? "");
  if (certificate.ca && uris?.length !== 0) {
    throw invalidIdentity("The client certificate is a CA certificate, which does not identify a workload.");
  }
  return onlySpiffeId(uris, "The client certificate");
}

/**
 * The SPIFFE ID in a value of X-Forwarded-Client-Cert; undefined if it has no URI. Only its last element is used, which the nearest proxy has appended:
 * earlier ones were part of the request and can be forged. Envoy writes `URI=` if the certificate has no URI.
 */
export function workloadOfForwarded(header: string): string | undefined {
  const nearest = parseForwardedCertificates(header)?.at(-1);
  const uris = nearest?.flatMap(([key, value]) => (key === "uri" && value !== "" ? [value] : []));
  return onlySpiffeId(uris, "The header X-Forwarded-Client-Cert");
}

function onlySpiffeId(uris: readonly string[] | undefined, source: string): string | undefined {
  if (uris?.length === 0) {
    return undefined;
  }
  const [id, ...additional] = uris ?? [];
  if (id === undefined || additional.length > 0 || !isSpiffeId(id)) {
    throw invalidIdentity(`${source} must contain exactly one URI, which is a SPIFFE ID with a path.`);
  }
  return id;
}

/** The URIs of a subjectAltName in Node's format, which quotes names that contain separators. undefined: invalid. */
function urisOf(subjectAltName: string): string[] | undefined {
  const name = /([^:,"]+):("(?:[^"\\]|\\.)*"|[^",]*)(?:, |$)/y;
  const uris: string[] = [];
  while (name.lastIndex < subjectAltName.length) {
    const match = name.exec(subjectAltName);
    if (match === null) {
      return undefined;
    }
    if (match[1] === "URI") {
      uris.push(match[2] ?? "");
    }
  }
  return uris;
}

/** One proxy's description of its client's certificate: keys in lower case, and their unquoted values. */
type ForwardedCertificate = readonly (readonly [key: string, value: string])[];

/**
 * Parses a value of X-Forwarded-Client-Cert, as documented by Envoy:
 *
 *     header  = element *( OWS "," OWS element )
 *     element = pair *( ";" pair )
 *     pair    = key "=" ( plain / DQUOTE *( character / "\" character ) DQUOTE )
 *     plain   = *( any but "," ";" "=" DQUOTE "\" or space )
 *
 * Each proxy appends its element. undefined: invalid.
 */
function parseForwardedCertificates(header: string): readonly ForwardedCertificate[] | undefined {
  const pair = /[ \t]*([a-z]+)=(?:"((?:[^"\\]|\\.)*)"|([^",;=\\\s]*))[ \t]*([,;]|$)/giy;
  const elements: ForwardedCertificate[] = [];
  let element: [string, string][] = [];
  for (;;) {
    const match = pair.exec(header);
    if (match === null) {
      return undefined;
    }
    const [, key = "", quoted, plain = "", delimiter] = match;
    element.push([key.toLowerCase(), quoted?.replaceAll(/\\(.)/g, "$1") ?? plain]);
    if (delimiter === ";") {
      continue;
    }
    elements.push(element);
    element = [];
    if (delimiter === "") {
      return elements;
    }
  }
}

// SPIFFE-ID, section 2: scheme and trust domain are case-insensitive. Only lower case is accepted, so that equal IDs are
// equal strings.
const trustDomain = String.raw`spiffe://[a-z0-9._-]{1,255}`;
const path = String.raw`(?:/(?!\.{1,2}(?:/|$))[a-zA-Z0-9._-]+)`;
const workload = new RegExp(`^${trustDomain}${path}+$`);
const pattern = new RegExp(`^${trustDomain}(?:${path}+|${path}*/\\*)$`);
const maxBytes = 2048;

/**
 * True if this is the SPIFFE ID of a workload in canonical form. It must have a path (X509-SVID, section 3.1), and must
 * not have a query, fragment, port, user, percent-encoding or empty segments.
 */
export function isSpiffeId(text: string): boolean {
  return text.length <= maxBytes && workload.test(text);
}

/** True if this is a SPIFFE ID of a workload, or a prefix of such IDs that ends in `/*`. */
export function isSpiffePattern(text: string): boolean {
  return text.length <= maxBytes && pattern.test(text);
}
