import type { DescService } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import { type AccessRule, compileAccess } from "./access.ts";
import type { Authenticator } from "./authenticator.ts";
import { allows } from "./permissions.ts";
import { type Principal, principalKey } from "./principal.ts";
import { insufficientScope, invalidToken, noToken } from "./unauthorized.ts";

/**
 * A requestGate of Connect's: lets a call in, and tells who makes it, before its body is read. Throws
 * where a service has a method that does not say who may call it.
 */
export function createGate(
  authenticator: Authenticator,
  services: readonly DescService[],
): (context: HandlerContext) => void | Promise<void> {
  const rules = compileAccess(services);

  const admit = (context: HandlerContext, rule: AccessRule, principal: Principal): void => {
    if (rule.kind === "authenticated" && authenticator.required && principal.username === undefined) {
      throw noToken();
    }
    if (rule.kind === "permission" && !allows(principal.permissions, rule.permission)) {
      throw principal.username === undefined ? noToken() : insufficientScope(rule.permission);
    }
    context.values.set(principalKey, principal);
  };

  return (context) => {
    const rule = rules.get(context.method);
    if (rule === undefined) {
      throw new TypeError(
        `${context.service.typeName}.${context.method.name} is served, but the gate was not told of it`,
      );
    }
    if (rule.kind === "public") {
      return undefined;
    }
    if (authenticator.required && hasTokenInQuery(context.url)) {
      throw invalidToken("An access token belongs in the Authorization header, never in the address.");
    }
    const principal = authenticator.authenticate(context.requestHeader.get("authorization"));
    return principal instanceof Promise
      ? principal.then((principal) => admit(context, rule, principal))
      : admit(context, rule, principal);
  };
}

/** RFC 6750 (section 2.3) knows such tokens, and advises against them: addresses end up in logs. */
function hasTokenInQuery(url: string): boolean {
  const query = url.indexOf("?");
  return query !== -1 && new URLSearchParams(url.slice(query)).has("access_token");
}
