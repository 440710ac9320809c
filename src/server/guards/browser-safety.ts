import { FlowgateError } from "../../errors.ts";
import { createHostCheck } from "./host-check.ts";
import { isCrossOrigin } from "./origin-check.ts";
import type { Guard } from "../pipeline/pipeline.ts";
import { rejectRequest } from "../pipeline/reject.ts";
import type { RequestContext } from "../pipeline/request-context.ts";

export type BrowserSafetyOptions = {
  /**
   * Host names of the service, besides its addresses and localhost. Absent: Host is not checked. With TLS it need not
   * be, as the browser checks the name in the certificate.
   */
  readonly hosts?: readonly string[] | undefined;
  /**
   * Whether the gate rejects an invalid Authorization. If so, this guard lets requests with an Authorization pass:
   * foreign pages have no token, and browsers do not add one automatically, as they do with client certificates.
   */
  readonly checksTokens: boolean;
  /**
   * Which requests without a token are allowed something at present: those of anonymous clients, of workloads only, or none.
   * Host is checked for anonymous clients only. Defaults to `anonymous`.
   */
  readonly exposure?: () => "anonymous" | "workloads" | "none";
};

/** Health endpoints accept any Host, since probes send various ones, and their responses are not sensitive. */
const healthPath = /^\/(?:healthz|readyz|grpc\.health\.v1\.Health\/\w+)$/;

/**
 * Protects a service that needs no token from foreign web pages: from DNS rebinding, by a check of Host (421), and from
 * cross-site request forgery, by a check of the origin (403).
 */
export function createPageGuard({
  hosts,
  checksTokens,
  exposure = () => "anonymous",
  isListed,
}: BrowserSafetyOptions & { isListed: (origin: string) => boolean }): Guard {
  const isOwn = hosts === undefined ? () => true : createHostCheck(hosts);
  return (request) => {
    const { headers } = request;
    const exposed = exposure();
    if (exposed === "none" || (checksTokens && headers.authorization !== undefined)) {
      return undefined;
    }
    const hosts = hostsOf(request);
    const foreignHost = exposed === "anonymous" ? hosts.find((host) => !isOwn(host)) : undefined;
    if (foreignHost !== undefined && !healthPath.test(request.path)) {
      return rejectRequest(request, 421, misdirected(foreignHost));
    }
    return isCrossOrigin({ method: request.httpMethod, headers }, hosts[0] ?? "", isListed)
      ? rejectRequest(request, 403, foreignOrigin(headers.origin))
      : undefined;
  };
}

/**
 * All authorities in the request, in order of precedence: X-Forwarded-Host of a trusted proxy, the absolute target (RFC
 * 9112, section 3.2.2), :authority (RFC 9113, section 8.3.1) and Host. Never empty.
 */
function hostsOf({ exchange, headers, host: requestedHost }: RequestContext): string[] {
  const { host, ":authority": authority } = headers as Record<string, string | undefined>;
  const forwarded = requestedHost === (host ?? authority ?? "") ? undefined : requestedHost;
  const { target } = exchange;
  const [, absolute] = target.startsWith("/") ? [] : (/^https?:\/\/([^/?#]*)/i.exec(target) ?? []);
  const hosts = [forwarded, absolute, authority, host].filter((name) => name !== undefined);
  return hosts.length === 0 ? [""] : hosts;
}

function misdirected(host: string): FlowgateError {
  return new FlowgateError(
    "misdirected_request",
    `${quote(host, "the Host")} is not a name of this service: without a token, the Host must be one of its addresses, localhost, or a name in its option hosts; if it should be a name of this service, add it there`,
  );
}

function foreignOrigin(origin: string | undefined): FlowgateError {
  return new FlowgateError(
    "foreign_origin",
    `pages of ${quote(origin, "another origin")} may not call this service without a token; to allow them, add their origin to its option cors.origins`,
  );
}

/** Returns the received value if it is safe to repeat in a message, otherwise the fallback. */
function quote(value: string | undefined, fallback: string): string {
  return value !== undefined && /^[\w.:/[\]-]{1,255}$/.test(value) ? value : fallback;
}
