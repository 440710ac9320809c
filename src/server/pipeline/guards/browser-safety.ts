import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { FlowgateError } from "@flowgate/flows/errors";
import { rejectRequest } from "../errors.ts";
import type { Guard } from "../pipeline.ts";
import type { RequestContext } from "../request-context.ts";

export type BrowserSafetyOptions = {
  /**
   * Host names of the service, besides its addresses and localhost. Absent: Host is not checked. With TLS it need not
   * be, as the browser checks the name in the certificate.
   */
  readonly hosts?: readonly string[] | undefined;
  /**
   * True if the gate rejects an invalid Authorization. If so, this guard lets requests with an Authorization pass:
   * foreign pages have no token, and browsers do not add one automatically, as they do with client certificates.
   */
  readonly checksTokens: boolean;
  /**
   * Returns the token-less requests that currently have permissions: from anonymous clients, from workloads only, or
   * none. Host is checked for anonymous clients only. Defaults to `anonymous`.
   */
  readonly exposure?: () => "anonymous" | "workloads" | "none";
  /**
   * The port of Node-RED's tools, whose pages run code of modules: they may not call this API, whatever token they have. undefined: there
   * are none. While there are, the origin is checked for requests with a token too, since those pages may be behind a proxy.
   */
  readonly toolsPort?: () => number | undefined;
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
  toolsPort = () => undefined,
  isListed,
}: BrowserSafetyOptions & { isListed: (origin: string) => boolean }): Guard {
  const isOwn = hosts === undefined ? () => true : createHostCheck(hosts);
  return (request) => {
    const { headers } = request;
    const port = toolsPort();
    if (port !== undefined && headers.origin !== undefined && isOnPort(headers.origin, port, isOwn)) {
      return rejectRequest(request, 403, toolOrigin());
    }
    const exposed = exposure();
    if (exposed === "none" || (checksTokens && headers.authorization !== undefined)) {
      return port !== undefined && isCrossOrigin(toPageRequest(request), hostsOf(request)[0] ?? "", isListed)
        ? rejectRequest(request, 403, foreignOrigin(headers.origin, ""))
        : undefined;
    }
    const hosts = hostsOf(request);
    const foreignHost = exposed === "anonymous" ? hosts.find((host) => !isOwn(host)) : undefined;
    if (foreignHost !== undefined && !healthPath.test(request.path)) {
      return rejectRequest(request, 421, misdirected(foreignHost));
    }
    return isCrossOrigin(toPageRequest(request), hosts[0] ?? "", isListed)
      ? rejectRequest(request, 403, foreignOrigin(headers.origin))
      : undefined;
  };
}

function toPageRequest({ httpMethod, headers }: RequestContext): Pick<IncomingMessage, "method" | "headers"> {
  return { method: httpMethod, headers };
}

/** True if an origin is this port of a host that is a name or an address of this service. */
function isOnPort(origin: string, port: number, isOwn: (host: string) => boolean): boolean {
  const url = URL.parse(origin);
  return url !== null && Number(url.port || (url.protocol === "https:" ? 443 : 80)) === port && isOwn(url.hostname);
}

function toolOrigin(): FlowgateError {
  return new FlowgateError(
    "foreign_origin",
    "pages of Node-RED's editor may not call this API: use the one on the editor's port (nodeRed.port)",
  );
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

function foreignOrigin(origin: string | undefined, condition = " without a token"): FlowgateError {
  return new FlowgateError(
    "foreign_origin",
    `pages of ${quote(origin, "another origin")} may not call this service${condition}; to allow them, add their origin to its option cors.origins`,
  );
}

/** Returns the received value if it is safe to repeat in a message, otherwise the fallback. */
function quote(value: string | undefined, fallback: string): string {
  return value !== undefined && /^[\w.:/[\]-]{1,255}$/.test(value) ? value : fallback;
}

/**
 * Returns a test whether a Host header or :authority names this service. With DNS rebinding, a page makes its own name
 * resolve to an address of this service and becomes same-origin with it, but its requests still have that name in Host.
 *
 * Any IP address passes, since no name was resolved then. `names` are host names or addresses.
 */
export function createHostCheck(names: readonly string[]): (host: string) => boolean {
  const own = new Set(["localhost", ...names.map((name) => hostnameOf(name))]);
  // Caches the last result, since most requests have the same Host.
  let last: string | undefined;
  let isOwn = false;
  return (host) => {
    if (host !== last) {
      const hostname = hostnameOf(host);
      isOwn = hostname !== undefined && (own.has(hostname) || isIP(hostname) !== 0);
      last = host;
    }
    return isOwn;
  };
}

/** The host name in lower case, without port, brackets and trailing dot; undefined: invalid (RFC 9110, section 7.2). */
function hostnameOf(host: string): string | undefined {
  const [, ipv6, name] = /^(?:\[([\da-f:.]+)\]|([\w-]+(?:\.[\w-]+)*)\.?)(?::\d{0,5})?$/i.exec(host) ?? [];
  return (ipv6 ?? name)?.toLowerCase();
}

/**
 * True if a browser sent this request on behalf of a page of another origin. `authority` is the requested authority;
 * origins for which `isListed` returns true are allowed.
 *
 * Browsers send Origin with every request that can have side effects, and Sec-Fetch-Site (Fetch Metadata) with all
 * requests to loopback or over TLS. Pages can neither set nor remove them; other clients send neither.
 */
export function isCrossOrigin(
  { method, headers }: Pick<IncomingMessage, "method" | "headers">,
  authority: string,
  isListed: (origin: string) => boolean,
): boolean {
  const { origin } = headers;
  if (origin !== undefined && isListed(origin)) {
    return false;
  }
  if (origin !== undefined && !isSameOrigin(origin, authority)) {
    return true;
  }
  const site = headers["sec-fetch-site"];
  // Another port of this host is the same site, but another origin.
  return (site === "cross-site" || site === "same-site") && !isTopLevelNavigation(method, headers);
}

/** Compares host and port only: the scheme is unknown if a proxy terminates TLS. */
function isSameOrigin(origin: string, authority: string): boolean {
  const scheme = /^https?:/.exec(origin)?.[0];
  return scheme !== undefined && URL.parse(`${scheme}//${authority}`)?.origin === origin;
}

/** A user followed a link. That is safe: it is a read, and the linking page can't see the response. */
function isTopLevelNavigation(method: string | undefined, headers: IncomingMessage["headers"]): boolean {
  return (
    (method === "GET" || method === "HEAD") &&
    headers["sec-fetch-mode"] === "navigate" &&
    headers["sec-fetch-dest"] === "document"
  );
}
