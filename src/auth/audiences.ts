import type { StoredToken } from "../store/token-store.ts";

/** The listener that accepts a token: the API's, or that of Node-RED's tools. Never both. */
export type Audience = "api" | "tools";

export const editorClientId = "node-red-editor";

/** The values of `client_id` that Node-RED's tools send. */
export const toolClientIds: readonly string[] = ["node-red-admin", editorClientId];

/**
 * The maximum permissions of tools' tokens. The editor's pages run code of modules, which can use its token: so such a
 * token manages no tokens and reads no audit log, whatever its user may do.
 */
export const toolPermissions: readonly string[] = [
  "flows.read",
  "flows.write",
  "revisions.read",
  "runtime.read",
  "runtime.write",
  "runtime.inject",
  "events.read",
  "debug.read",
  "context.read",
  "context.write",
  "modules.read",
  "modules.write",
  "settings.read",
  "library.read",
  "library.write",
];

export function audienceOf({ clientId }: Pick<StoredToken, "clientId">): Audience {
  return toolClientIds.includes(clientId) ? "tools" : "api";
}
