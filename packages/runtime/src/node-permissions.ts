/** Header fields of requests to the routes of nodes: the caller and its permissions, which the runtime process checks. */
export const callerHeaders = { name: "x-flowgate-user", permissions: "x-flowgate-permissions" } as const;

/** Permissions that Node-RED names in another way. */
const otherNames: ReadonlyMap<string, string> = new Map([
  ["inject.write", "runtime.inject"],
  ["nodes.read", "modules.read"],
  ["nodes.write", "modules.write"],
  ["diagnostics.read", "runtime.read"],
]);

/** Permissions that have the same name. */
const sameNames: ReadonlySet<string> = new Set([
  "context.read",
  "context.write",
  "debug.read",
  "flows.read",
  "flows.write",
  "library.read",
  "library.write",
  "settings.read",
]);

/**
 * The permission of this service that stands for one that a route of a node requires; undefined: any caller may use the route. Nodes
 * invent names, such as `udp-ports.read`: by their ends, these are reading the flows, or changing them.
 */
export function permissionOfNode(name: string): string | undefined {
  if (name === "") {
    return undefined;
  }
  const byEnd = /(?:^|\.)read$/.test(name) ? "flows.read" : "flows.write";
  return otherNames.get(name) ?? (sameNames.has(name) ? name : byEnd);
}
