import type { User } from "./accounts.ts";
import type { ClientKind } from "./caller.ts";
import type { Attempt, Limiter } from "./limiter.ts";
import { type PasswordHash, parsePasswordHash } from "@flowgate/base/password-hash";
import { costOf, tooManyLogins, verifyPasswords } from "./passwords.ts";
import { tokenError } from "./errors.ts";

type Login = { readonly username: string; readonly password: string };

/** The source of a login. `kind` defaults to the network. */
export type LoginSource = { readonly address: string; readonly kind?: ClientKind | undefined };

/** The prompts that a client must show its user. */
export const passwordLogin = {
  type: "credentials",
  prompts: [
    { id: "username", type: "text", label: "Username" },
    { id: "password", type: "password", label: "Password" },
  ],
};

/**
 * Resolves with the user with this name and password, or rejects with a token error. `onFailure` is called with the cause of a failed
 * login, and with the name of the user if it exists.
 */
export type VerifyLogin = (
  login: Login,
  source: LoginSource,
  onFailure: (cause: string, username?: string) => void,
) => Promise<User>;

/**
 * Checks passwords without revealing which users exist: each login checks one hash of every cost that the configured hashes have,
 * so that all names take the same time. For a known name, the hash of its cost is its own; its result alone counts.
 */
export function createLoginCheck(users: readonly User[], limiter: Limiter): VerifyLogin {
  const accounts = users.map((user) => ({ user, hash: parseHash(user) }));
  const byName = new Map(accounts.map((account) => [account.user.username, account]));
  /** One hash of each cost. */
  const decoys = new Map(accounts.map(({ hash }) => [costOf(hash), hash]));
  if (decoys.size === 0) {
    throw new TypeError("adminAuth.users: at least one user is needed");
  }

  const isCorrectFor = async (own: PasswordHash | undefined, password: string): Promise<boolean> => {
    const ownCost = own && costOf(own);
    const hashes = [...decoys].map(([cost, decoy]) => (cost === ownCost ? (own as PasswordHash) : decoy));
    const results = await verifyPasswords(password, hashes);
    return results.some((isCorrect, at) => isCorrect && hashes[at] === own);
  };

  return async ({ username, password }, { address, kind }, onFailure) => {
    const account = byName.get(username);
    const attempt = await beginAttempt(limiter, username, { address, kind }, () =>
      onFailure("locked out", account?.user.username),
    );
    let isCorrect: boolean;
    try {
      isCorrect = await isCorrectFor(account?.hash, password);
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
  };
}

/** Rejects with a token error if there are too many attempts; `onLockedOut` is called if they have failed. */
export async function beginAttempt(
  limiter: Limiter,
  username: string | undefined,
  { address, kind }: LoginSource,
  onLockedOut: () => void,
): Promise<Attempt> {
  const attempt = await limiter.begin(username, address, kind);
  if (attempt === "busy") {
    throw tooManyLogins();
  }
  if (typeof attempt === "number") {
    onLockedOut();
    throw tokenError("temporarily_unavailable", "Too many failed attempts; try again later.", {
      retryAfterSeconds: attempt,
    });
  }
  return attempt;
}

function parseHash({ username, password }: User) {
  const hash = parsePasswordHash(password);
  if (hash === undefined) {
    throw new TypeError(`adminAuth.users: the password of ${username} is not an argon2id or bcrypt hash`);
  }
  return hash;
}
