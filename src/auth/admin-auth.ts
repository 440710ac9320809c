export type User = {
  readonly username: string;
  /** An argon2id or bcrypt hash, never a password. */
  readonly password: string;
  readonly permissions: readonly string[];
};

/** The configured users and defaults. Without it, all clients that can reach the port have all permissions. */
export type AdminAuth = {
  /** At least one, with unique names. */
  readonly users: readonly User[];
  /** Permissions of requests without a token. */
  readonly default?: { readonly permissions: readonly string[] } | undefined;
  /** The accepted values of `client_id`. */
  readonly clientIds: readonly string[];
  readonly tokenLifetimeSeconds: number;
  /** The number of named tokens of a user that have not expired. */
  readonly maxTokensPerUser: number;
  /** The same of all users. */
  readonly maxTokens: number;
};
