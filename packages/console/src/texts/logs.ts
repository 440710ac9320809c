export const texts = {
  kind: {
    log: "Log",
    node_error: "Node errors",
    debug: "Debug messages",
    deployment: "Deployments",
    runtime_state: "States",
    health: "Health",
    node_status: "Node statuses",
    module: "Modules",
    token: "Tokens",
    users: "Users",
    proposal: "Proposals",
  },
  levels: {
    fatal: "fatal",
    error: "error or worse",
    warn: "warn or worse",
    info: "info or worse",
    debug: "debug or worse",
    trace: "trace or worse",
  },
  held: (count: number) => (count === 1 ? "Show 1 new entry" : `Show ${count} new entries`),
  count: (shown: number, all: number) => (shown === all ? `${all} entries` : `${shown} of ${all} entries`),
  full: (max: string) => `Only ${max} entries are kept here. Narrow the filters to see earlier ones.`,
  times: (count: number) => `×${count}`,
  at: (line: number, column: number) => `line ${line}, column ${column}`,
  truncated: "(shortened)",
  revision: (rev: string) => `revision ${rev}`,
  on: (runtime: string) => `on ${runtime}`,
  words: {
    levels: ["", "fatal", "error", "warn", "info", "debug", "trace"],
    debug: "debug",
    status: "status",
    module: "module",
    token: "token",
    users: "users",
    proposal: "proposal",
    missing: "missing",
    unknown: "event",
  },
  messages: {
    deployment: (who: string, message: string) => `Deployed by ${who}${message === "" ? "" : `: ${message}`}`,
    state: "The state of the flows has changed",
    health: "The health of the flows has changed",
    statusCleared: "cleared",
    module: (action: string, name: string, version: string) =>
      `${action} ${version === "" ? name : `${name}@${version}`}`,
    token: (action: string, subject: string, user: string) => `${action}: ${subject}, by ${user}`,
    proposal: (id: string, who: string, message: string) => `${id} by ${who}${message === "" ? "" : `: ${message}`}`,
    missing: (count: number) =>
      count === 0
        ? "Entries are missing here"
        : count === 1
          ? "1 entry is missing here"
          : `${count} entries are missing here`,
    reasons: {
      slow_reader: "this page has read them too slowly",
      flood: "the flows have written too many at once",
      expired: "they are no longer known",
      not_encoded: "they could not be represented",
      replica_unreachable: "another replica could not be reached",
      not_recorded: "they were not recorded",
      not_kept: "this page was paused for too long",
    },
  },
} as const;
