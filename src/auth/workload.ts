import type { X509Certificate } from "node:crypto";
import { parseForwardedCertificates } from "./forwarded-certificate.ts";
import { isSpiffeId } from "./spiffe.ts";
import { invalidIdentity } from "./unauthorized.ts";

/**
 * The SPIFFE ID of a verified client certificate (X509-SVID, section 5.2); undefined where it has no URI at
 * all. Throws `invalid_identity` where it has several, or one that is no SPIFFE ID, or is that of an authority.
 */
export function workloadOfCertificate(certificate: X509Certificate): string | undefined {
  const uris = urisOf(certificate.subjectAltName ?? "");
  if (certificate.ca && uris?.length !== 0) {
    throw invalidIdentity("The client certificate is that of an authority, which identifies no workload.");
  }
  return onlySpiffeId(uris, "The client certificate");
}

/**
 * The same, of a value of X-Forwarded-Client-Cert. Its last element counts, which the nearest proxy has
 * added: what stands before came with the request, and anyone may have written it. Envoy writes `URI=` where the
 * certificate has none.
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
  const [id, ...others] = uris ?? [];
  if (id === undefined || others.length > 0 || !isSpiffeId(id)) {
    throw invalidIdentity(`${source} must name one URI, and that a SPIFFE ID with a path.`);
  }
  return id;
}

/** Of a subjectAltName as Node writes it: names that could be mistaken for several are in quotes there. */
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
