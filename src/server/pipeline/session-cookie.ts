import type { IncomingHttpHeaders } from "node:http";
import type { BrowserSession } from "../../auth/caller.ts";
import { isConfidentialUrl } from "@flowgate/base/addresses";
import { readCookie } from "@flowgate/base/cookies";
import { FlowgateError } from "@flowgate/flows/errors";

/** The header of calls that change something, with any value. Pages of other origins can't send it without a preflight. */
const forgeryHeader = "X-CSRF-Protection";
const forgeryKey = forgeryHeader.toLowerCase();

/**
 * Finds the cookies that a request can have, by its scheme and authority; undefined: others could read or change it on its way.
 * `isFromElsewhere`: a proxy on this machine has received it from another one.
 */
export type FindCookies = (scheme: string, host: string, isFromElsewhere: () => boolean) => SessionCookies | undefined;

/** The cookies at this origin, whatever a request says. */
export function cookiesAt(origin: string): FindCookies {
  const cookies = new SessionCookies(origin);
  return () => cookies;
}

/**
 * The cookies at the origin of each request. A page of another site can't have an own origin here by DNS rebinding: with https the browser
 * verifies the name by the certificate, and with http only the names of loopback count.
 */
export function cookiesAtRequests(): FindCookies {
  // Caches the last result, since most requests have the same origin.
  let last = "";
  let cookies: SessionCookies | undefined;
  return (scheme, host, isFromElsewhere) => {
    const text = `${scheme}://${host}`;
    if (text !== last) {
      const url = isConfidentialUrl(text) ? URL.parse(text) : null;
      cookies = url?.href === `${url?.origin}/` ? new SessionCookies(url.origin) : undefined;
      last = text;
    }
    return cookies?.attributes.secure === false && isFromElsewhere() ? undefined : cookies;
  };
}

export class SessionCookies {
  readonly origin: string;
  readonly session: string;
  readonly transaction: string;
  readonly attributes: { readonly path: "/"; readonly httpOnly: true; readonly secure: boolean };

  constructor(origin: string) {
    const secure = origin.startsWith("https:");
    // With the prefix, neither plain HTTP nor another host of the domain can set it (RFC 6265bis, section 4.1.3.2).
    const prefix = secure ? "__Host-" : "";
    this.origin = origin;
    this.session = `${prefix}flowgate-session`;
    this.transaction = `${prefix}flowgate-sign-in`;
    this.attributes = { path: "/", httpOnly: true, secure };
  }

  read(headers: IncomingHttpHeaders): BrowserSession | undefined {
    const value = readCookie(headers.cookie, this.session);
    if (value === undefined) {
      return undefined;
    }
    return {
      value,
      assertOwnPage: (isChange) => {
        if (this.isForeign(headers)) {
          throw new FlowgateError(
            "foreign_origin",
            `a session can be used by pages of ${this.origin} only: other clients need an access token`,
          );
        }
        if (isChange && headers[forgeryKey] === undefined) {
          throw new FlowgateError(
            "foreign_origin",
            `a call that changes something needs the header ${forgeryHeader}: 1 with a session, which pages of other origins can't send`,
          );
        }
      },
    };
  }

  /** True if a page of another origin, or a link in one, has caused the request, according to the browser. */
  isForeign({ origin, "sec-fetch-site": site }: IncomingHttpHeaders): boolean {
    return (
      (origin !== undefined && origin !== this.origin) ||
      (site !== undefined && site !== "same-origin" && site !== "none")
    );
  }
}
