export const texts = {
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
  moreNodes: (more: number) => `and ${more} more`,
  actions: { stop: "stops", start: "starts", restart: "restarts" },
  losses: {
    removed: (count: number) => `Context of removed items: ${count} ${count === 1 ? "node or tab" : "nodes and tabs"}.`,
  },
  missingTypes: "Node types that are not installed. No node starts without them:",
  nodes: (n: number) => count(n, "node"),
  existingWarnings: (n: number) => `${count(n, "warning", "warnings")} that the active flows have too`,
  moduleStates: {
    upgraded: (installed: string) => `another version is installed: ${installed || "an unknown one"}`,
    replaces: (installed: string) => `replaces the installed version ${installed}`.trimEnd(),
  },

  failingNodes: "Nodes with errors",
  errorsOf: (errors: number) => (errors === 1 ? "1 error" : `${errors} errors`),
  merged: "Merged",
  unchanged: "unchanged",
  noLongerListed: (more: number) => `and ${count(more, "more change", "more changes")}`,
} as const;

function count(n: number, one: string, many: string = `${one}s`): string {
  return `${n} ${n === 1 ? one : many}`;
}
