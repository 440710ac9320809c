import type { AdminAuth } from "../../src/auth/accounts.ts";
import { hashPassword } from "../../src/auth/passwords.ts";

export const known = new Set(["flows.read", "flows.write", "settings.read"]);

/** Users by name, with their permissions. The password of each is its name and "-secret". */
export async function adminAuth(
  users: Record<string, readonly string[]>,
  rest: Partial<AdminAuth> = {},
): Promise<AdminAuth> {
  return {
    users: await Promise.all(
      Object.entries(users).map(async ([username, permissions]) => ({
        username,
        password: await hashPassword(`${username}-secret`),
        permissions,
      })),
    ),
    issuers: [],
    clientIds: ["service-admin", "service-editor"],
    tokenLifetimeSeconds: 604_800,
    maxTokensPerUser: 100,
    maxTokens: 1000,
    ...rest,
  };
}
