import { FlowgateError } from "../../errors.ts";
import { createHostCheck } from "./host-check.ts";
import { isCrossOrigin } from "./origin-check.ts";
import type { Guard } from "../pipeline/pipeline.ts";
import { refuse } from "../pipeline/refuse.ts";
import type { RequestContext } from "../pipeline/request-context.ts";

export type BrowserSafetyOptions = {
  /**
   * The names of the service, beside its addresses and localhost. Absent: Host is not checked. Over TLS a browser
   * finds out by itself that the name of a page is not ours.
   */
  readonly hosts?: readonly string[] | undefined;
  /**
   * Whether the gate refuses an Authorization that is not good. A request with one is left to it then: no page knows
   * a token of ours, and no browser adds one by itself. It does add a client's certificate.
   */
  readonly checksTokens: boolean;
};

/** Probes name any host, and these answer nothing but whether the service can do its work. */
const probed = /^\/(?:healthz|readyz|grpc\.health\.v1\.Health\/\w+)$/;

/**
 * Keeps foreign web pages from what callers may do without a token: from reading by DNS rebinding (421, the Host
 * is not ours), and from changing anything by forged requests (403, the origin is foreign).
 */
export function createPageGuard({
  hosts,
  checksTokens,
  isListed,
}: BrowserSafetyOptions & { isListed: (origin: string) => boolean }): Guard {
  const isOwn = hosts === undefined ? () => true : createHostCheck(hosts);
  return (request) => {
    const { headers } = request;
    if (checksTokens && headers.authorization !== undefined) {
      return undefined;
    }
    const named = hostsOf(request);
    const stranger = named.find((host) => !isOwn(host));
    if (stranger !== undefined && !probed.test(request.path)) {
      return refuse(request, 421, misdirected(stranger));
    }
    return isCrossOrigin({ method: request.httpMethod, headers }, named[0] ?? "", isListed)
      ? refuse(request, 403, foreignOrigin(headers.origin))
      : undefined;
  };
}

/**
 * All names that the client calls this server by, the decisive one first: by word of a trusted proxy, in the target (RFC
 * 9112, section 3.2.2), in :authority (RFC 9113, section 8.3.1) and in Host. Never empty.
 */
function hostsOf({ exchange, headers, host: called }: RequestContext): string[] {
  const { host, ":authority": authority } = headers as Record<string, string | undefined>;
  const forwarded = called === (host ?? authority ?? "") ? undefined : called;
  const { target } = exchange;
  const [, absolute] = target.startsWith("/") ? [] : (/^https?:\/\/([^/?#]*)/i.exec(target) ?? []);
  const named = [forwarded, absolute, authority, host].filter((name) => name !== undefined);
  return named.length === 0 ? [""] : named;
}

function misdirected(host: string): FlowgateError {
  return new FlowgateError(
    "misdirected_request",
    `${quote(host, "the Host")} is no name of this service: where no token is needed, it answers to its addresses, to localhost, and to the names in its option hosts; add it there if it is one`,
  );
}

function foreignOrigin(origin: string | undefined): FlowgateError {
  return new FlowgateError(
    "foreign_origin",
    `pages of ${quote(origin, "another origin")} may not call this service where no token is needed: name their origin in its option cors.origins if they shall`,
  );
}

/** What was sent, where it is fit to be seen again. */
function quote(sent: string | undefined, otherwise: string): string {
  return sent !== undefined && /^[\w.:/[\]-]{1,255}$/.test(sent) ? sent : otherwise;
}
