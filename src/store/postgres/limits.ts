/** How long this program waits for PostgreSQL. */
export const limits = {
  /** How long a connection may take to open. */
  connectMs: 2_000,
  /** Limits statements on the server. */
  statementMs: 10_000,
  /** How long a statement may wait for a lock. */
  lockMs: 5_000,
  /** So that a process that is stopped in a transaction does not block the others. */
  idleInTransactionMs: 2_000,
  /** Limits queries here, for servers that no longer respond. */
  queryMs: 15_000,
  /** Pause before a server is probed again. */
  searchPauseMs: 200,
  /** How long a server may take to answer a probe. */
  probeMs: 3_000,
  /** How long disposing waits for the server to close connections. */
  endMs: 1_000,
  /** How long a query waits for the primary to be found. */
  primaryWaitMs: 500,
} as const;
