import type { TLSSocket } from "node:tls";
import { invalidIdentity } from "../auth/unauthorized.ts";
import { workloadOfCertificate, workloadOfForwarded } from "../auth/workload.ts";
import type { Exchange } from "./listener/exchange.ts";

/** Whose word counts for who a workload is: that of its own certificate, or that of a trusted proxy. */
export type IdentitySource = "certificate" | "forwarded";

/**
 * The SPIFFE ID of the workload that sent a request; undefined where nothing vouches for one. Throws
 * `invalid_identity` where what came can't be relied on.
 */
export type ReadWorkload = (exchange: Exchange) => string | undefined;

type Trust = (address: string | undefined) => boolean;

export function createReadWorkload(source: IdentitySource, isTrusted: Trust): ReadWorkload {
  return source === "certificate" ? createReadCertificate() : (exchange) => readForwarded(exchange, isTrusted);
}

/** A certificate is read once a connection, not for each of its requests. */
function createReadCertificate(): ReadWorkload {
  const known = new WeakMap<object, string | undefined>();
  return ({ socket }) => {
    if (!known.has(socket)) {
      const secure = socket as TLSSocket;
      const certificate = secure.authorized ? secure.getPeerX509Certificate() : undefined;
      known.set(socket, certificate && workloadOfCertificate(certificate));
    }
    return known.get(socket);
  };
}

const header = "x-forwarded-client-cert";

function readForwarded({ headers, rawHeaders, remoteAddress }: Exchange, isTrusted: Trust): string | undefined {
  const { [header]: value } = headers;
  if (value === undefined || !isTrusted(remoteAddress)) {
    return undefined;
  }
  // Node joins lines of one name: one that the proxy has let through would look like one that it wrote.
  const lines = rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === header);
  if (lines.length !== 1 || typeof value !== "string") {
    throw invalidIdentity("There must be one header X-Forwarded-Client-Cert, not several.");
  }
  return workloadOfForwarded(value);
}
