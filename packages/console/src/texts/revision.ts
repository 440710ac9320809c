/** What every page says about revisions of the flows. */
export const texts = {
  rev: (rev: string) => `Revision ${rev}`,
  anonymous: "Not signed in",
  byToken: (name: string) => `token ${name}`,
  approvedBy: (name: string) => `approved by ${name}`,
  causes: {
    deployment: "Deployment",
    merge: "Merge",
    flow: "Change of a flow",
    restore: "Restore",
    undo: "Undo",
    automaticUndo: "Automatic undo",
    unknown: "Unknown",
  },
  back: "back to",
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
