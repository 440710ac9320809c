import type { StoredToken } from "../store/token-store.ts";
import type { User } from "./admin-auth.ts";
import { narrow } from "./permissions.ts";
import type { Principal } from "./principal.ts";
import { sha256 } from "./sha256.ts";

/** The configured users, to whom stored tokens belong. */
export interface Accounts {
  /** The fingerprint for the tokens of a user; undefined: there is no such user. */
  fingerprintOf(username: string): Buffer | undefined;
  /** The caller with this token; undefined: it is expired, or its user was removed or has another password hash. */
  principalOf(token: StoredToken): Principal | undefined;
}

export function createAccounts(users: readonly User[], now: () => number): Accounts {
  const accounts = new Map(users.map((user) => [user.username, { user, fingerprint: sha256(user.password) }]));
  // Cacheable, because these users do not change.
  const principals = new WeakMap<StoredToken, Principal>();

  function createPrincipal(token: StoredToken): Principal | undefined {
    const account = accounts.get(token.username);
    if (account === undefined || !account.fingerprint.equals(token.passwordFingerprint)) {
      return undefined;
    }
    const { username, permissions } = account.user;
    const principal: Principal = {
      username,
      token: { id: token.id, name: token.name },
      permissions: narrow(permissions, token.scope.split(" ")),
    };
    principals.set(token, principal);
    return principal;
  }

  return {
    fingerprintOf: (username) => accounts.get(username)?.fingerprint,
    principalOf: (token) =>
      token.expiresAtMs <= now() ? undefined : (principals.get(token) ?? createPrincipal(token)),
  };
}
