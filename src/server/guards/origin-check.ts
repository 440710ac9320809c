import type { IncomingMessage } from "node:http";

/**
 * Whether a browser sent this request on behalf of a page of another origin. `authority` is the requested authority;
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
