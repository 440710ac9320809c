import type { FastifyInstance, FastifyRequest } from "fastify";
import { FlowgateError } from "../../errors.ts";
import { createHostCheck } from "./host-check.ts";
import { isForeign } from "./origin-check.ts";
import { pathOf, refuseRequest, type RpcPaths } from "./refuse-request.ts";

export type BrowserSafetyOptions = {
  /**
   * The names of the service, beside its addresses and localhost. Absent: Host is not checked. Over TLS a browser
   * finds out by itself that the name of a page is not ours.
   */
  readonly hosts?: readonly string[];
  /**
   * Whether the gate refuses an Authorization that is not good. A request with one is left to it then: no page knows
   * a token of ours, and no browser adds one by itself. It does add a client's certificate.
   */
  readonly checksTokens: boolean;
};

/** Probes name whatever host they were given, and these tell nothing but whether the service can do its work. */
const probed = /^\/(?:healthz|readyz|grpc\.health\.v1\.Health\/\w+)$/;

/**
 * Keeps web pages of others from what callers may do without a token: from reading by DNS rebinding (421, the Host
 * is not ours), and from changing anything by forged requests (403, the origin is foreign). Before anything else
 * looks at a request.
 */
export function guardAgainstPages(
  app: FastifyInstance,
  {
    hosts,
    checksTokens,
    isListed,
    rpcs,
  }: BrowserSafetyOptions & { isListed: (origin: string) => boolean; rpcs: RpcPaths },
): void {
  const isOwn = hosts === undefined ? () => true : createHostCheck(hosts);
  app.addHook("onRequest", (request, reply, done) => {
    const { raw } = request;
    if (checksTokens && raw.headers.authorization !== undefined) {
      done();
      return;
    }
    const named = hostsOf(request);
    const stranger = named.find((host) => !isOwn(host));
    if (stranger !== undefined && !probed.test(pathOf(request))) {
      refuseRequest(request, reply, { status: 421, error: misdirected(stranger), rpcs });
    } else if (isForeign(raw, named[0] ?? "", isListed)) {
      refuseRequest(request, reply, { status: 403, error: foreignOrigin(raw.headers.origin), rpcs });
    } else {
      done();
    }
  });
}

/**
 * All that the client calls us, what counts most first: to a trusted proxy, in the target (RFC 9112, 3.2.2), in
 * :authority (RFC 9113, 8.3.1) and in Host. Never empty.
 */
function hostsOf(request: FastifyRequest): string[] {
  const { host, ":authority": authority } = request.raw.headers as Record<string, string | undefined>;
  const forwarded = request.host === (host ?? authority) ? undefined : request.host;
  const [, target] = /^https?:\/\/([^/?#]*)/i.exec(request.originalUrl) ?? [];
  const named = [forwarded, target, authority, host].filter((name) => name !== undefined);
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
