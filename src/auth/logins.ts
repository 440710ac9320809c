import { createHash, createHmac } from "node:crypto";
import type { User } from "./admin-auth.ts";
import type { Limiter } from "./limiter.ts";
import { parsePasswordHash, verifyPassword } from "./passwords.ts";
import { tokenError } from "./token-error.ts";

type Login = { readonly username: string; readonly password: string };

export interface Logins {
  /**
   * Returns the user with this name and password, or rejects with a token error. `address` is that of the client.
   * `onFailure` is called with the cause of a failed login, and with the name of the user if it exists.
   */
  verify(login: Login, address: string, onFailure: (cause: string, username?: string) => void): Promise<User>;
}

/**
 * Checks passwords without revealing which users exist: the password for an unknown name is checked against the hash
 * of a configured user, and rejected whatever the result. That user is chosen by the name alone, so that an unknown
 * name always takes the same time, even if the hashes differ in algorithm and cost.
 */
export function createLogins(users: readonly User[], limiter: Limiter): Logins {
  const accounts = users.map((user) => ({ user, hash: parseHash(user) }));
  const byName = new Map(accounts.map((account) => [account.user.username, account]));
  // Secret, and stable across restarts.
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
    async verify({ username, password }, address, onFailure) {
      const account = byName.get(username);
      const attempt = await limiter.begin(username, address);
      if (typeof attempt === "number") {
        onFailure("locked out", account?.user.username);
        throw tokenError("temporarily_unavailable", "Too many failed attempts; try again later.", {
          retryAfterSeconds: attempt,
        });
      }
      let isCorrect: boolean;
      try {
        isCorrect = await verifyPassword(password, (account ?? decoyFor(username)).hash);
      } catch (error) {
        await attempt.abandon();
        throw error;
      }
      if (account === undefined || !isCorrect) {
        await attempt.fail();
        onFailure(account === undefined ? "unknown user" : "wrong password", account?.user.username);
        throw tokenError("invalid_grant", "The username or the password is wrong.");
      }
      await attempt.succeed();
      return account.user;
    },
  };
}

function parseHash({ username, password }: User) {
  const hash = parsePasswordHash(password);
  if (hash === undefined) {
    throw new TypeError(`adminAuth.users: the password of ${username} is not an argon2id or bcrypt hash`);
  }
  return hash;
}
