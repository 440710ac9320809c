import type { IncomingMessage } from "node:http";
import type { FastifyInstance } from "fastify";
import { FlowgateError } from "@flowgate/flows/errors";
import { createTrust } from "../pipeline/client.ts";
import { createHostCheck, isCrossOrigin } from "../pipeline/guards/browser-safety.ts";

/** Host names of the service, besides its addresses and localhost. Undefined: Host is not checked, since TLS does. */
export type OwnHosts = readonly string[] | undefined;

/** Refuses requests that do not name this service, or come from a page of another origin. */
export function protectOrigin(app: FastifyInstance, hosts: OwnHosts): void {
  const isOwn = ownHostCheck(hosts);
  app.addHook("onRequest", (request, reply, done) => {
    const { raw, headers } = request;
    for (const [name, value] of Object.entries(securityHeaders)) {
      reply.raw.setHeader(name, value);
    }
    // With regard to trusted proxies, whose own Host must be known as well.
    const authority = request.host;
    if (![authority, headers.host ?? ""].every((host) => isOwn(host))) {
      const message =
        "the Host is not a name of this service: use one of its addresses, localhost, or add the name to its option hosts";
      done(new FlowgateError("misdirected_request", message));
    } else if (isCrossOrigin({ method: raw.method, headers }, authority, () => false)) {
      done(new FlowgateError("foreign_origin", "pages of other origins may not use this"));
    } else {
      done();
    }
  });
}

const securityHeaders = {
  "cross-origin-resource-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  // Unless a route sets another one: responses contain flows and settings.
  "cache-control": "no-store",
} as const;

/**
 * Returns a function that returns the status with which a request for a websocket is refused, or undefined. Browsers apply no same-origin
 * policy to websockets: pages of any origin may open one, and with DNS rebinding under any name.
 */
export function createUpgradeCheck(
  hosts: OwnHosts,
  trustedProxies: readonly string[],
): (request: IncomingMessage) => number | undefined {
  const isOwn = ownHostCheck(hosts);
  const isTrusted = createTrust(trustedProxies);
  return (request) => {
    const { method, headers, socket } = request;
    const { host = "", "x-forwarded-host": forwarded } = headers;
    if (method !== "GET" || countOf("host", request) !== 1) {
      return 400;
    }
    const requested =
      typeof forwarded === "string" && isTrusted(socket.remoteAddress)
        ? (forwarded.split(",").at(-1)?.trim() ?? "")
        : host;
    if (![host, requested].every((name) => isOwn(name))) {
      return 421;
    }
    return isCrossOrigin({ method, headers }, requested, () => false) ? 403 : undefined;
  };
}

function ownHostCheck(hosts: OwnHosts): (host: string) => boolean {
  return hosts === undefined ? () => true : createHostCheck(hosts);
}

/** How often a header was sent. */
export function countOf(name: string, { rawHeaders }: IncomingMessage): number {
  return rawHeaders.filter((each, at) => at % 2 === 0 && each.toLowerCase() === name).length;
}
