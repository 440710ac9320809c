/** How long this program waits for PostgreSQL. */
export const limits = {
  connectMs: 2_000,
  /** Limits statements on the server. */
  statementMs: 10_000,
  lockMs: 5_000,
  /** So that a process that is stopped in a transaction does not block the others. */
  idleInTransactionMs: 2_000,
  /** Limits queries here, for servers that no longer respond. */
  queryMs: 15_000,
  searchMs: 200,
  probeMs: 3_000,
  /** How long disposing waits for the server to close connections. */
  endMs: 1_000,
  /** How long a query waits for the primary to be found. */
  primaryWaitMs: 500,
} as const;
