import type { TLSSocket } from "node:tls";
import { invalidIdentity } from "../auth/errors.ts";
import { workloadOfCertificate, workloadOfForwarded } from "../auth/workload.ts";
import type { Exchange } from "./listener/exchange.ts";

/** How a workload is identified: by its client certificate, or by the X-Forwarded-Client-Cert of a trusted proxy. */
export type IdentitySource = "certificate" | "forwarded";

/**
 * Returns the verified SPIFFE ID of the workload that sent a request; undefined if there is none. Throws
 * `invalid_identity` if the certificate or the header is invalid.
 */
export type ReadWorkload = (exchange: Exchange) => string | undefined;

type Trust = (address: string | undefined) => boolean;

export function createReadWorkload(source: IdentitySource, isTrusted: Trust): ReadWorkload {
  return source === "certificate" ? createReadCertificate() : (exchange) => readForwarded(exchange, isTrusted);
}

/** Caches the result per connection. */
function createReadCertificate(): ReadWorkload {
  const cache = new WeakMap<object, string | undefined>();
  return ({ socket }) => {
    if (!cache.has(socket)) {
      const secure = socket as TLSSocket;
      const certificate = secure.authorized ? secure.getPeerX509Certificate() : undefined;
      cache.set(socket, certificate && workloadOfCertificate(certificate));
    }
    return cache.get(socket);
  };
}

const header = "x-forwarded-client-cert";

function readForwarded({ headers, rawHeaders, remoteAddress }: Exchange, isTrusted: Trust): string | undefined {
  const { [header]: value } = headers;
  if (value === undefined || !isTrusted(remoteAddress)) {
    return undefined;
  }
  // Node joins repeated fields. One that the proxy has passed through could not be distinguished from its own.
  const lines = rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === header);
  if (lines.length !== 1 || typeof value !== "string") {
    throw invalidIdentity("There must be one header X-Forwarded-Client-Cert, not several.");
  }
  return workloadOfForwarded(value);
}
