export type User = {
  readonly username: string;
  /** An argon2id or bcrypt hash, never a password. */
  readonly password: string;
  readonly permissions: readonly string[];
};

/** Who may use the service, as configured. Without it everyone who reaches the port may do everything. */
export type AdminAuth = {
  /** At least one; no two of the same name. */
  readonly users: readonly User[];
  /** What a request without a token may do. */
  readonly default?: { readonly permissions: readonly string[] } | undefined;
  /** The values of `client_id` that are let in. */
  readonly clientIds: readonly string[];
  readonly tokenLifetimeSeconds: number;
};
