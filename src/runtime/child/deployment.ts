import type { FlowNode } from "../../flows/configuration.ts";
import type { CredentialEntries, Deploy } from "../messages.ts";

export type CredentialsObject = Record<string, Record<string, string>>;

/**
 * Returns the flows with empty `credentials` on each node whose credentials changed. Without this property the runtime
 * does not restart such a node in a `nodes` or `flows` deployment, and it keeps its previous credentials.
 */
export function markChangedCredentials(
  flows: readonly FlowNode[],
  { type, credentialsChanged }: Pick<Deploy, "type" | "credentialsChanged">,
): object[] {
  if (type === "full" || credentialsChanged.length === 0) return [...flows];
  const ids = new Set(credentialsChanged);
  return flows.map((node) => (ids.has(node.id) ? { ...node, credentials: {} } : node));
}

/** Returns the credentials by node id. Removed ones are empty objects, because the runtime keeps those that are absent. */
export function toCredentialsObject(entries: CredentialEntries, changed: readonly string[]): CredentialsObject {
  return Object.fromEntries([
    ...changed.map((id) => [id, {}] as const),
    ...entries.map(([id, set]) => [id, Object.fromEntries(set)] as const),
  ]);
}
