import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { DescMethod } from "@bufbuild/protobuf";
import { type ContextValues, createContextValues } from "@connectrpc/connect";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { AuditRecorder } from "../../auth/audit-recorder.ts";
import { type Principal, peerKey, principalKey } from "../../auth/caller.ts";
import { type CallerAuthenticator, createAccessCheck, type PermissionCheck } from "../../auth/gate.ts";
import type { AccessRule } from "../../auth/permissions.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import type { Origin } from "../../store/audit-store.ts";
import { createTrust } from "../pipeline/client.ts";
import { createHostCheck, isCrossOrigin } from "../pipeline/guards/browser-safety.ts";

/** Who may use a route. Each route has one in its `config`. */
export type RouteAccess = Exclude<AccessRule, { readonly kind: "replica" }>;

declare module "fastify" {
  interface FastifyContextConfig {
    readonly access?: RouteAccess;
    /** The RPC that the route calls, for metrics. Absent: it is counted with all others. */
    readonly rpc?: DescMethod;
  }
  interface FastifyRequest {
    /** The caller and its client, as calls of services need them. */
    values: ContextValues;
  }
}

type AccessOptions = {
  readonly authenticator: CallerAuthenticator;
  readonly audit: AuditRecorder;
  /** Host names of the service, besides its addresses and localhost. Absent: Host is not checked, since TLS does. */
  readonly hosts: readonly string[] | undefined;
};

export const publicRoute = { access: { kind: "public" } } as const;

/** The `config` of a route for callers with a permission. */
export function requires(permission: string): { readonly access: RouteAccess } {
  return { access: { kind: "permission", permission } };
}

export function callerOf(request: FastifyRequest): Principal {
  return request.values.get(principalKey);
}

/** Who has caused a change, for the audit log. */
export function originOf(request: FastifyRequest): Origin {
  const { username: by, token } = callerOf(request);
  return { by, token, address: request.ip, protocol: "rest", requestId: request.id };
}

/**
 * Checks each request before its body is read: that it names this service and comes from no foreign page, and that its caller may use
 * the route. Must be called before routes are added. A route that does not declare its access can't be added.
 */
export function protectRoutes(app: FastifyInstance, { authenticator, audit, hosts }: AccessOptions): void {
  const isOwn = ownHostCheck(hosts);
  const checks = new WeakMap<RouteAccess, PermissionCheck>();
  const checkOf = (access: RouteAccess): PermissionCheck => {
    const check = checks.get(access) ?? createAccessCheck(authenticator, access, audit);
    checks.set(access, check);
    return check;
  };

  app.decorateRequest("values", null as unknown as ContextValues);
  app.addHook("onRoute", ({ method, url, config }) => {
    if (config?.access === undefined) {
      throw new TypeError(`${String(method)} ${url} does not declare who may use it: set its config`);
    }
  });
  app.addHook("onRequest", async (request, reply) => {
    const { raw, headers } = request;
    for (const [name, value] of Object.entries(securityHeaders)) {
      reply.raw.setHeader(name, value);
    }
    // With regard to trusted proxies, whose own Host must be known as well.
    const authority = request.host;
    if (![authority, headers.host ?? ""].every((host) => isOwn(host))) {
      throw new FlowgateError(
        "misdirected_request",
        "the Host is not a name of this service: use one of its addresses, localhost, or add the name to its option hosts",
      );
    }
    if (isCrossOrigin({ method: raw.method, headers }, authority, () => false)) {
      throw new FlowgateError("foreign_origin", "pages of other origins may not use this");
    }
    // Node ignores all but the first one.
    if (countOf("authorization", raw) > 1) {
      throw new FlowgateError("invalid_argument", "Authorization: must be sent once");
    }
    const { authorization = null } = headers;
    const peer = { address: request.ip, requestId: request.id, target: raw.url ?? "", authorization };
    request.values = createContextValues().set(peerKey, peer);
    const { access } = request.routeOptions.config;
    if (access !== undefined) {
      const { values } = request;
      await checkOf(access)({ url: raw.url ?? "", requestHeader: headersOf(headers), values });
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

/** The headers that the gate reads. */
export function headersOf({ authorization }: IncomingHttpHeaders): Headers {
  return new Headers(authorization === undefined ? {} : { authorization });
}

/**
 * Returns a function that returns the status with which a request for a websocket is refused, or undefined. Browsers apply no same-origin
 * policy to websockets: pages of any origin may open one, and with DNS rebinding under any name.
 */
export function createUpgradeCheck(
  hosts: AccessOptions["hosts"],
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

function ownHostCheck(hosts: AccessOptions["hosts"]): (host: string) => boolean {
  return hosts === undefined ? () => true : createHostCheck(hosts);
}

/** How often a header was sent. */
function countOf(name: string, { rawHeaders }: IncomingMessage): number {
  return rawHeaders.filter((each, at) => at % 2 === 0 && each.toLowerCase() === name).length;
}
