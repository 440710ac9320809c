export const texts = {
  effect: "Effect",
  nothingRestarts: "No node is stopped or started.",
  restarts: (stop: number, start: number, restart: number) =>
    [
      stop === 0 ? "" : `stops ${count(stop, "node")}`,
      start === 0 ? "" : `starts ${count(start, "node")}`,
      restart === 0 ? "" : `restarts ${count(restart, "node")}`,
    ]
      .filter((part) => part !== "")
      .join(", ")
      .replace(/^s/, "S")
      .replace(/^r/, "R"),
  whichNodes: "Which nodes",
  moreNodes: (more: number) => `and ${more} more`,
  actions: { stop: "stops", start: "starts", restart: "restarts" },
  lost: "What is lost:",
  losses: {
    process:
      "The flows start in a new process, unless the service is configured otherwise: context in memory, and messages that nodes hold, are gone.",
    messages:
      "Nodes that restart lose the messages that they hold, their timers and their connections. Context in memory stays.",
    removed: (count: number) =>
      `The context of what is removed: ${count} ${count === 1 ? "node or tab" : "nodes and tabs"}.`,
    nothing: "Nothing: no node restarts.",
  },
  missingTypes: "Node types that are not installed. No node starts without them:",
  nodes: (n: number) => count(n, "node"),
  lostCredentials: "Credentials are lost:",
  warnings: "Probably not intended:",
  existingWarnings: (n: number) => `${count(n, "warning", "warnings")} that the active flows have too`,
  modules: "Modules",
  moduleStates: {
    installs: "is installed by this deployment",
    missing: "is not installed: no node starts",
    upgraded: (installed: string) => `another version is installed: ${installed || "an unknown one"}`,
    replaces: (installed: string) => `replaces the installed version ${installed}`.trimEnd(),
    present: "is installed",
  },
  activeFails: "The active flows do not run:",
  changes: "Changes",

  outcomes: {
    running: "Its flows are running",
    degraded: "Its flows run, but nodes have errors",
    failed: "Its flows do not run",
    pending: "It is not known yet whether its flows run",
    replaced: "A newer deployment has replaced it",
    undone: "Its flows did not run, and were undone",
    stopped: "The flows are stopped",
  },
  deployed: "Deployed revision",
  mergedWith: "merged with",
  undoneBy: "The previous flows were deployed again, as revision",
  reason: "Reason",
  failingNodes: "Nodes with errors",
  errorsOf: (errors: number) => (errors === 1 ? "1 error" : `${errors} errors`),
  merged: "Merged",
  node: "Node",
  yours: "By you",
  theirs: "By others",
  conflict: "Conflict",
  unchanged: "unchanged",
  noLongerListed: (more: number) => `and ${count(more, "more change", "more changes")}`,
} as const;

function count(n: number, one: string, many: string = `${one}s`): string {
  return `${n} ${n === 1 ? one : many}`;
}
