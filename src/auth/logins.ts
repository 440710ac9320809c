import { createHash, createHmac } from "node:crypto";
import type { User } from "./admin-auth.ts";
import type { Limiter } from "./limiter.ts";
import { parsePasswordHash, verifyPassword } from "./passwords.ts";
import { tokenError } from "./token-error.ts";

type Login = { readonly username: string; readonly password: string };

export interface Logins {
  /** Gives the user whose name and password these are. `address` is where they come from. */
  verify(login: Login, address: string): Promise<User>;
}

/**
 * Checks passwords so that no one learns which users exist: a name that none has is checked against the
 * hash of a configured user, and refused whatever comes of it. Which one depends on the name alone, so
 * that where users' hashes differ in kind and cost, a name that none has always takes the same time too.
 */
export function createLogins(users: readonly User[], limiter: Limiter): Logins {
  const accounts = users.map((user) => ({ user, hash: parseHash(user) }));
  const byName = new Map(accounts.map((account) => [account.user.username, account]));
  // Known only to who knows the configuration, and the same after a restart.
  const key = createHash("sha256")
    .update(users.map(({ password }) => password).join("\n"))
    .digest();

  const decoyFor = (username: string) => {
    const decoy = accounts[createHmac("sha256", key).update(username).digest().readUInt32BE() % accounts.length];
    if (decoy === undefined) {
      throw new TypeError("adminAuth.users: at least one user is needed");
    }
    return decoy;
  };
  decoyFor("");

  return {
    async verify({ username, password }, address) {
      const attempt = await limiter.begin(username, address);
      if (typeof attempt === "number") {
        throw tokenError("temporarily_unavailable", "Too many failed tries; try again later.", {
          retryAfterSeconds: attempt,
        });
      }
      const account = byName.get(username);
      let right: boolean;
      try {
        right = await verifyPassword(password, (account ?? decoyFor(username)).hash);
      } catch (error) {
        attempt.abandon();
        throw error;
      }
      if (account === undefined || !right) {
        attempt.fail();
        throw tokenError("invalid_grant", "The username or the password is wrong.");
      }
      attempt.succeed();
      return account.user;
    },
  };
}

function parseHash({ username, password }: User) {
  const hash = parsePasswordHash(password);
  if (hash === undefined) {
    throw new TypeError(`adminAuth.users: the password of ${username} is no argon2id or bcrypt hash`);
  }
  return hash;
}
