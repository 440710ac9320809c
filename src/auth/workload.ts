import type { X509Certificate } from "node:crypto";
import { parseForwardedCertificates } from "./forwarded-certificate.ts";
import { isSpiffeId } from "./spiffe.ts";
import { invalidIdentity } from "./unauthorized.ts";

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
