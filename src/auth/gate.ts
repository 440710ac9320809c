import type { DescService } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import { type AccessRule, compileAccess } from "./access.ts";
import type { Authenticator } from "./authenticator.ts";
import { allows } from "./permissions.ts";
import { peerKey, type Principal, principalKey } from "./principal.ts";
import { insufficientScope, invalidToken, noIdentity, noToken } from "./unauthorized.ts";

/**
 * A requestGate of Connect's: lets a call in, and tells who makes it, before its body is read. Throws
 * where a service has a method that does not say who may call it. `foreign` are the rules of services whose
 * .proto is not ours, so that it can't say it.
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
        `${context.service.typeName}.${context.method.name} is served, but the gate was not told of it`,
      );
    }
    return authorize(authenticator, context, rule);
  };
}

/** What the gate looks at, of a call or of any other request. */
type GatedRequest = Pick<HandlerContext, "url" | "requestHeader" | "values">;

export type PermissionCheck = (request: GatedRequest) => void | Promise<void>;

/** The same for what is no RPC: lets in who has this permission. */
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
        ? "An access token belongs in the Authorization header, never in the address."
        : "This service issues no access tokens: leave access_token out of the address.",
    );
  }
  // Making Headers of a request costs as much as the rest of the gate.
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

/** RFC 6750 (section 2.3) knows such tokens, and advises against them: addresses end up in logs. */
function hasTokenInQuery(url: string): boolean {
  const query = url.indexOf("?");
  return query !== -1 && new URLSearchParams(url.slice(query)).has("access_token");
}
