import type { StoredToken } from "../store/token-store.ts";
import type { Principal } from "./caller.ts";
import { narrow } from "./permissions.ts";
import { sha256 } from "./tokens.ts";

export type User = {
  readonly username: string;
  /** An argon2id or bcrypt hash, never a password. */
  readonly password: string;
  readonly permissions: readonly string[];
};

/** An issuer of JWTs that callers can authenticate with. */
export type TokenIssuer = {
  /** The user names of its callers begin with this and a colon. Unique, and the beginning of no configured user. */
  readonly name: string;
  /** The claim `iss`. */
  readonly issuer: string;
  readonly audience: string;
  /** The location of its keys: one of the two is set. */
  readonly jwksUrl?: string | undefined;
  readonly jwksFile?: string | undefined;
  /** The accepted signature algorithms (RFC 7518, section 3.1), which are asymmetric. */
  readonly algorithms: readonly string[];
  readonly usernameClaim: string;
  readonly clockSkewSeconds: number;
  /** A caller has the permissions of all rules that match. */
  readonly rules: readonly ClaimRule[];
  readonly signIn?: OpenIdClient | undefined;
};

export type OpenIdClient = {
  readonly clientId: string;
  /** One of the two, or none: a public client. */
  readonly clientSecret?: string | undefined;
  readonly clientSecretFile?: string | undefined;
  /** The client of the command line, with the device flow. */
  readonly deviceClientId?: string | undefined;
  readonly scopes: readonly string[];
  /** Additional parameters of authorization requests. */
  readonly parameters: Readonly<Record<string, string>>;
};

export type SignInSettings = {
  /**
   * The origin at which browsers reach this service. Absent: each request's origin, if others can't read or change it
   * on its way.
   */
  readonly url?: string | undefined;
  readonly lifetimeSeconds: number;
};

/** The permissions of tokens with these claims. */
export type ClaimRule = {
  /** The text of each claim or, if it is a list, of one of its items. */
  readonly claims: Readonly<Record<string, string>>;
  readonly permissions: readonly string[];
};

/** The configured users, issuers and defaults. Without it, all clients that can reach the port have all permissions. */
export type AdminAuth = {
  /** With unique names. At least one, unless there are issuers. */
  readonly users: readonly User[];
  readonly issuers: readonly TokenIssuer[];
  /** Absent: browsers have no sessions. */
  readonly signIn?: SignInSettings | undefined;
  /** Permissions of requests without a token. */
  readonly default?: { readonly permissions: readonly string[] } | undefined;
  readonly clientIds: readonly string[];
  readonly tokenLifetimeSeconds: number;
  /** The number of named tokens of a user that have not expired. */
  readonly maxTokensPerUser: number;
  /** The same of all users. */
  readonly maxTokens: number;
};

/** The configured users, to whom stored tokens belong. */
export class Accounts {
  readonly #accounts: ReadonlyMap<string, { readonly user: User; readonly fingerprint: Buffer }>;
  readonly #now: () => number;
  /** Cacheable, because these users do not change. */
  readonly #principals = new WeakMap<StoredToken, Principal>();

  constructor(users: readonly User[], now: () => number) {
    this.#accounts = new Map(users.map((user) => [user.username, { user, fingerprint: sha256(user.password) }]));
    this.#now = now;
  }

  /** The fingerprint for the tokens of a user; undefined: there is no such user. */
  fingerprintOf(username: string): Buffer | undefined {
    return this.#accounts.get(username)?.fingerprint;
  }

  /** The caller with this token; undefined: it is expired, or its user was removed or has another password hash. */
  principalOf(token: StoredToken): Principal | undefined {
    return token.expiresAtMs <= this.#now() ? undefined : (this.#principals.get(token) ?? this.#createPrincipal(token));
  }

  #createPrincipal(token: StoredToken): Principal | undefined {
    const account = this.#accounts.get(token.username);
    if (!account?.fingerprint.equals(token.passwordFingerprint)) {
      return undefined;
    }
    const { username, permissions } = account.user;
    const principal: Principal = {
      username,
      token: { id: token.id, name: token.name },
      permissions: narrow(permissions, token.scope.split(" ")),
    };
    this.#principals.set(token, principal);
    return principal;
  }
}

export type IdentityRule = {
  /** A SPIFFE ID, or a prefix of SPIFFE IDs that ends in `/*`. */
  readonly id: string;
  readonly permissions: readonly string[];
};

/** Returns a lookup of the principal of a SPIFFE ID by its most specific rule; undefined: no rule matches. */
export function createIdentities(rules: readonly IdentityRule[]): (id: string) => Principal | undefined {
  const permissions = new Map(rules.map((rule) => [rule.id, rule.permissions]));

  return (id) => {
    let found = permissions.get(id);
    for (
      let at = id.lastIndexOf("/");
      found === undefined && at >= "spiffe://".length;
      at = id.lastIndexOf("/", at - 1)
    ) {
      found = permissions.get(`${id.slice(0, at)}/*`);
    }
    return found === undefined ? undefined : { username: id, permissions: found };
  };
}
