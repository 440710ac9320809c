import type { FlowNode } from "../flows/configuration.ts";
import type { CredentialEntries, Deploy } from "./messages.ts";

export type CredentialObject = Record<string, Record<string, string>>;

/**
 * The runtime takes a node's credentials as changed only where the node itself carries some: without the
 * mark a `nodes` or `flows` deployment would leave it running with the old ones.
 */
export function markedFlows(flows: readonly FlowNode[], { type, credentialsChanged }: Deploy): object[] {
  if (type === "full" || credentialsChanged.length === 0) return [...flows];
  const ids = new Set(credentialsChanged);
  return flows.map((node) => (ids.has(node.id) ? { ...node, credentials: {} } : node));
}

/** Those that were removed become empty: the runtime keeps what it is not told. */
export function credentialObject(entries: CredentialEntries, changed: readonly string[]): CredentialObject {
  return Object.fromEntries([
    ...changed.map((id) => [id, {}] as const),
    ...entries.map(([id, set]) => [id, Object.fromEntries(set)] as const),
  ]);
}
