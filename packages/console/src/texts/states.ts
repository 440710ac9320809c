/** Words for states and outcomes, on all pages. */
export const texts = {
  states: {
    starting: "starting",
    running: "running",
    failed: "failed",
    restarting: "restarting",
    safe: "safe mode",
    stopped: "stopped",
    standby: "standby",
    disabled: "runs no flows",
    unknown: "unknown",
  },
  outcomes: {
    running: "running",
    failed: "failed",
    crashed: "crashed",
    pending: "pending",
    replaced: "replaced",
    undone: "undone",
    stopped: "stopped",
    unknown: "unknown",
  },
  someone: "someone who was not signed in",
  byToken: (user: string, token: string) => `${user} (token ${token})`,
} as const;
