export const texts = {
  alert: {
    stoppedBy: (who: string) =>
      `By ${who}. They remain stopped, even after restarts of the service and deployments, until a user starts them.`,
    safeDetail: (reason: string) =>
      `Their process has ended too often${reason === "" ? "" : ` (${reason})`}. A deployment, an undo or a restart starts them again.`,
    restarted: (times: number): string =>
      times === 1
        ? "The runtime process ended unexpectedly in the last hour"
        : `The runtime process ended unexpectedly ${times} times in the last hour`,
    failingNodes: (count: number) => (count === 1 ? "A node fails" : `${count} nodes fail`),
    failingNodesDetail: (tab: string, others: number) =>
      `Errors within the last 10 minutes, on ${tab}${others === 0 ? "" : others === 1 ? " and one other tab" : ` and ${others} other tabs`}.`,
    heap: { runtime: "The flows use nearly all of their memory", service: "The service uses nearly all of its memory" },
    heapDetail: (used: string, limit: string) => `Heap: ${used} of ${limit}. At the limit, the process ends.`,
    lost: (count: number) => (count === 1 ? "A replica is lost" : `${count} replicas are lost`),
    version: (name: string) => `The replica ${name} has another version`,
    versionDetail: (theirs: string, ours: string) => `It has ${theirs}, the one that responds has ${ours}.`,
    replica: (name: string) => `The replica ${name} does not run the flows`,
    proposals: (count: number) =>
      count === 1 ? "A proposal waits for approval" : `${count} proposals wait for approval`,
  },
  runtime: {
    onPort: (port: number) => `port ${port}`,
    start: "Start",
    stop: "Stop",
    restart: "Restart",
    restartReplica: (name: string) => `Only the replica that responds is restarted, now ${name}.`,
  },
  replicas: {
    title: "Replicas",
    name: "Replica",
    state: "Flows",
    version: "Version",
    revision: "Revision",
    outcome: "Outcome",
    seen: "Last seen",
    reason: "Reason",
    self: "responds",
    otherRevision: "not the active one",
  },
  tabs: { globalNodes: "Global configuration nodes", more: (count: number) => `and ${count} more` },
  timeline: {
    by: (who: string) => `by ${who}`,
    changed: {
      starting: "The flows are being started",
      running: "The flows run",
      failed: "The flows have failed",
      restarting: "The runtime process has ended",
      safe: "Safe mode: the flows are not started any more",
      stopped: "The flows were stopped",
      standby: "Another replica runs the flows",
      disabled: "No flows run here",
      unknown: "The state has changed",
    },
    on: (runtime: string) => `on ${runtime}`,
    showAll: (count: number) => `Show all ${count}`,
    hoursAgo: (hours: number) => `${hours} h ago`,
  },
  usage: {
    title: "Load",
    heap: "Heap",
    delay: "Event loop delay",
    flows: "Flows",
    service: "Service",
    unknown: "not known",
    of: (used: string, limit: string) => `${used} of ${limit}`,
    since: "Since this page was opened.",
  },
} as const;
