import type { Thread } from "../../thread.ts";
import type { RevisionWrites } from "./revision-writes.ts";

/** The operations of the thread that writes. */
export type Writes = RevisionWrites;

export type WriteCall = { readonly operation: keyof Writes; readonly argument: unknown };

/** Calls the operations on the thread. */
export type Writer = {
  readonly [Name in keyof Writes]: (argument: Parameters<Writes[Name]>[0]) => Promise<ReturnType<Writes[Name]>>;
};

export function createWriter(thread: Thread<WriteCall, unknown>): Writer {
  const call = (operation: keyof Writes) => (argument: unknown) => thread.call({ operation, argument });
  return { commit: call("commit"), update: call("update"), prune: call("prune") } as Writer;
}
