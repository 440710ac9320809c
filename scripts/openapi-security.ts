import type { Schema, SecurityRequirement } from "../packages/gateway/src/openapi/document.ts";
import type { AccessRule } from "../src/auth/permissions.ts";
import { accessRules, permissions } from "../src/services/api.ts";

/** The two ways to authenticate: OAuth 2.0 with a password (RFC 6749, section 4.3), or any access token. */
export const securitySchemes: Record<string, Schema> = {
  login: {
    type: "oauth2",
    description: "Log in with username and password. Without a scope the token has all permissions of the user.",
    // Code generators refuse a relative path; the documentation page replaces it below a path prefix of a proxy.
    flows: { password: { tokenUrl: "/auth/token", scopes: describeScopes() } },
  },
  // Not "token": ogen has one namespace for schemes and schemas, of which one is "Token".
  bearer: { type: "http", scheme: "bearer", description: "An access token, such as a named one." },
};

/** The requirement of an access rule; empty for none. */
export function securityOf(rule: AccessRule | undefined): SecurityRequirement[] {
  if (rule?.kind === "public") {
    return [];
  }
  return requireScopes(rule?.kind === "permission" ? [rule.permission] : []);
}

export function requireScopes(scopes: readonly string[]): SecurityRequirement[] {
  return Object.keys(securitySchemes).map((scheme) => ({ [scheme]: scopes }));
}

/** Describes each scope by what it permits. */
function describeScopes(): Record<string, string> {
  const methods = Map.groupBy(accessRules, ([, rule]) => (rule.kind === "permission" ? rule.permission : undefined));
  const single = [...permissions].map((name) => {
    const names = methods.get(name)?.map(([method]) => method.name) ?? [];
    return [name, names.length === 0 ? "GET /metrics" : names.join(", ")];
  });
  return { "*": "All operations", read: "All operations that only read", ...Object.fromEntries(single) };
}
