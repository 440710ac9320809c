import { hashSync } from "bcryptjs";
import type { AdminAuth } from "../../src/auth/accounts.ts";

export const known = new Set(["flows.read", "flows.write", "settings.read"]);

/** Users by name, with their permissions. The password of each is its name and "-secret", with a hash of the lowest cost. */
export function adminAuth(users: Record<string, readonly string[]>, rest: Partial<AdminAuth> = {}): AdminAuth {
  return {
    users: Object.entries(users).map(([username, permissions]) => ({
      username,
      password: hashSync(`${username}-secret`, 4),
      permissions,
    })),
    issuers: [],
    clientIds: ["service-admin", "service-editor"],
    tokenLifetimeSeconds: 604_800,
    maxTokensPerUser: 100,
    maxTokens: 1000,
    ...rest,
  };
}
