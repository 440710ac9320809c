import type { AcceptedConnection } from "./accepted-connection.ts";
import type { ListenerOptions } from "./options.ts";

/** The connections of the runtime beyond its share. Those that were authenticated are the last to be among them. */
export function findSurplus<Connection extends AcceptedConnection>(
  ofRuntime: ReadonlySet<Connection>,
  share: ListenerOptions["runtimeShare"],
): Connection[] {
  const connections = [...ofRuntime].toSorted(
    (one, other) => Number(other.isAuthenticated) - Number(one.isAuthenticated),
  );
  const kept = { connections: 0, calls: 0 };
  return connections.filter(({ calls }) => {
    const isSurplus = kept.connections >= share.connections || kept.calls + calls.size > share.calls;
    if (!isSurplus) {
      kept.connections += 1;
      kept.calls += calls.size;
    }
    return isSurplus;
  });
}
