import type { Thread } from "../../base/thread.ts";
import type { AuditWrites } from "./audit-writes.ts";
import type { LoginWrites } from "./login-writes.ts";
import type { RevisionWrites } from "./revision-writes.ts";
import type { TokenWrites } from "./token-writes.ts";

/** The operations of the thread that writes. Each is one transaction. */
export type Writes = RevisionWrites & TokenWrites & AuditWrites & LoginWrites;

export type WriteCall = { readonly operation: keyof Writes; readonly argument: unknown };

/** Calls the operations on the thread. */
export type Writer = {
  readonly [Name in keyof Writes]: (argument: Parameters<Writes[Name]>[0]) => Promise<ReturnType<Writes[Name]>>;
};

export function createWriter(thread: Pick<Thread<WriteCall, unknown>, "call">): Writer {
  const call = (operation: keyof Writes) => (argument: unknown) => thread.call({ operation, argument });
  return {
    commit: call("commit"),
    update: call("update"),
    prune: call("prune"),
    insertToken: call("insertToken"),
    removeTokens: call("removeTokens"),
    removeExpiredTokens: call("removeExpiredTokens"),
    recordTokenUses: call("recordTokenUses"),
    appendAudit: call("appendAudit"),
    pruneAudit: call("pruneAudit"),
    recordFailedLogin: call("recordFailedLogin"),
    resetFailedLogins: call("resetFailedLogins"),
  } as Writer;
}
