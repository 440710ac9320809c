export const texts = {
  rev: (rev: string) => `Revision ${rev}`,
  byToken: (name: string) => `token ${name}`,
  approvedBy: (name: string) => `approved by ${name}`,
  restarts: (count: number) => (count === 1 ? "1 restart" : `${count} restarts`),
  outcomes: {
    running: "running",
    failed: "failed",
    degraded: "degraded",
    pending: "starting",
    replaced: "replaced",
    undone: "undone",
    stopped: "stopped",
    unknown: "unknown",
  },
  types: { full: "All nodes", nodes: "Modified nodes", flows: "Modified flows", unknown: "Unknown" },
} as const;
