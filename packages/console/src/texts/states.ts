/** Words for the states of the flows, and who has caused them, on all pages. */
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
  someone: "someone who was not signed in",
  byToken: (user: string, token: string) => `${user} (token ${token})`,
} as const;
