import type { FlowNode } from "../../flows/configuration.ts";
import type { CredentialEntries, Deploy } from "../messages.ts";

export type CredentialsObject = Record<string, object>;

/**
 * Returns the flows with empty `credentials` on each node whose credentials changed. Without this property the runtime
 * does not restart such a node in a `nodes` or `flows` deployment, and it keeps its previous credentials.
 */
export function markChangedCredentials(
  flows: readonly FlowNode[],
  { type, credentialsChanged }: Pick<Deploy, "type" | "credentialsChanged">,
): object[] {
  if (type === "full" || credentialsChanged.length === 0) {
    return [...flows];
  }
  const ids = new Set(credentialsChanged);
  return flows.map((node) => (ids.has(node.id) ? { ...node, credentials: {} } : node));
}

/**
 * Returns the credentials by node id. Removed ones are empty objects, because the runtime keeps those that are absent. Those of
 * `global-config` nodes are in `map`, where the runtime reads them.
 */
export function toCredentialsObject(
  entries: CredentialEntries,
  changed: readonly string[],
  flows: readonly FlowNode[],
): CredentialsObject {
  const globals = new Set(flows.filter(({ type }) => type === "global-config").map(({ id }) => id));
  return Object.fromEntries([
    ...changed.map((id) => [id, {}] as const),
    ...entries.map(([id, entry]) => {
      const set = Object.fromEntries(entry);
      return [id, globals.has(id) ? { map: set } : set] as const;
    }),
  ]);
}
