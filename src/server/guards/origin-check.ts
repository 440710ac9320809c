import type { IncomingMessage } from "node:http";

/**
 * Whether a browser sent this request for a page of another origin than the service's own. `authority` is what the
 * client calls the service; `isListed` tells the origins that may call it all the same.
 *
 * Every browser sends Origin with what can change something, and Sec-Fetch-Site (Fetch Metadata) with all requests
 * to loopback or over TLS. No page can set or leave out either; other clients send neither.
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
  return (site === "cross-site" || site === "same-site") && !isVisit(method, headers);
}

/** The scheme is the proxy's where one terminates TLS: here, only the host and the port can be compared. */
function isSameOrigin(origin: string, authority: string): boolean {
  const scheme = /^https?:/.exec(origin)?.[0];
  return scheme !== undefined && URL.parse(`${scheme}//${authority}`)?.origin === origin;
}

/** Someone followed a link, and sees the answer in a window of its own: reads change nothing, and no page sees it. */
function isVisit(method: string | undefined, headers: IncomingMessage["headers"]): boolean {
  return (
    (method === "GET" || method === "HEAD") &&
    headers["sec-fetch-mode"] === "navigate" &&
    headers["sec-fetch-dest"] === "document"
  );
}
