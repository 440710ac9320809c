import type { AuditRecord } from "../store/audit-store.ts";
import { wrapMethods } from "../store/guard.ts";
import type { TokenStore } from "../store/token-store.ts";
import type { EventHub } from "./hub.ts";

/** Returns the store of tokens. It publishes which named tokens are created, and which tokens are revoked. */
export function publishTokens(store: TokenStore, hub: EventHub): TokenStore {
  const publish = (action: "created" | "revoked", { subject, detail, origin }: AuditRecord): void =>
    void hub.publish({
      kind: { case: "token", value: { action, subject: subject ?? detail ?? "", user: origin.by ?? "" } },
    });
  return {
    ...wrapMethods(store, (operation) => operation),
    async insert(token, entry, limits) {
      await store.insert(token, entry, limits);
      // Others are issued for logins.
      if (entry.kind === "token_created") {
        publish("created", entry);
      }
    },
    async remove(selector, entry) {
      const count = await store.remove(selector, entry);
      if (count > 0) {
        publish("revoked", entry);
      }
      return count;
    },
  };
}
