import type { DescService } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import { type AccessRule, compileAccess } from "./access.ts";
import type { Authenticator } from "./authenticator.ts";
import { allows } from "./permissions.ts";
import { peerKey, type Principal, principalKey } from "./principal.ts";
import { insufficientScope, invalidToken, noIdentity, noToken } from "./unauthorized.ts";

/**
 * Creates a gate, which authenticates and authorizes a call before its body is read, and sets `principalKey`. Throws if
 * a method does not declare who may call it. `foreign` has the rules of third-party services, whose .proto files can't
 * declare them.
 */
export function createGate(
  authenticator: Authenticator,
  services: readonly DescService[],
  foreign: ReadonlyMap<DescService, AccessRule> = new Map(),
): (context: HandlerContext) => void | Promise<void> {
  const rules = new Map(compileAccess(services));
  for (const [{ methods }, rule] of foreign) {
    for (const method of methods) {
      rules.set(method, rule);
    }
  }

  return (context) => {
    const rule = rules.get(context.method);
    if (rule === undefined) {
      throw new TypeError(
        `${context.service.typeName}.${context.method.name} is served, but the gate has no access rule for it`,
      );
    }
    return authorize(authenticator, context, rule);
  };
}

/** The properties of a call, or of another request, that the gate reads. */
type GatedRequest = Pick<HandlerContext, "url" | "requestHeader" | "values">;

export type PermissionCheck = (request: GatedRequest) => void | Promise<void>;

/** The same for requests that are not RPCs: rejects callers without the permission. */
export function createPermissionCheck(authenticator: Authenticator, permission: string): PermissionCheck {
  return (request) => authorize(authenticator, request, { kind: "permission", permission });
}

function authorize(authenticator: Authenticator, request: GatedRequest, rule: AccessRule): void | Promise<void> {
  if (rule.kind === "public") {
    return undefined;
  }
  if (authenticator.required && hasTokenInQuery(request.url)) {
    throw invalidToken(
      authenticator.issuesTokens
        ? "An access token must be in the Authorization header, not in the URL."
        : "This service issues no access tokens: remove access_token from the URL.",
    );
  }
  // The peer's copy of Authorization is preferred: creating Headers would cost as much as the rest of the gate.
  const { authorization = request.requestHeader.get("authorization"), workload } = request.values.get(peerKey);
  const unknownCaller = authenticator.issuesTokens ? noToken : noIdentity;
  const admit = (principal: Principal): void => {
    if (rule.kind === "authenticated" && authenticator.required && principal.username === undefined) {
      throw unknownCaller();
    }
    if (rule.kind === "permission" && !allows(principal.permissions, rule.permission)) {
      throw principal.username === undefined
        ? unknownCaller()
        : insufficientScope(rule.permission, authorization !== null);
    }
    request.values.set(principalKey, principal);
  };
  const principal = authenticator.authenticate(authorization, workload);
  return principal instanceof Promise ? principal.then(admit) : admit(principal);
}

/** RFC 6750, section 2.3, allows tokens in the query but advises against them, since URLs are logged. */
function hasTokenInQuery(url: string): boolean {
  const query = url.indexOf("?");
  return query !== -1 && new URLSearchParams(url.slice(query)).has("access_token");
}
