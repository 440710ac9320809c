import { programFile } from "../../base/program-file.ts";
import { openThread } from "@flowgate/base/thread";
import type { JournalOptions, JournalStore } from "../journal-store.ts";

export type JournalThreadData = { readonly path: string };

type Operation = "append" | "list" | "lastSeq" | "read" | "claimCursor" | "moveCursor" | "prune";

export type JournalCall = { readonly operation: Operation; readonly argument: unknown };

/** `replaced` is why there is a new file since this call. */
export type JournalReply = { readonly result: unknown; readonly replaced: string | undefined };

/** The journal in a file of its own, on a thread of its own. Both are opened by the first call. */
export function openSqliteJournal(path: string, { onReplaced }: JournalOptions): JournalStore {
  const thread = openThread<JournalCall, JournalReply>({
    name: "flowgate journal",
    entry: programFile("store/sqlite/journal-thread"),
    data: { path } satisfies JournalThreadData,
    // The calls in it reject.
    onUnexpectedExit() {},
  });

  async function call<Name extends Operation>(
    operation: Name,
    argument: Parameters<JournalStore[Name]>[0],
  ): Promise<Awaited<ReturnType<JournalStore[Name]>>> {
    const { result, replaced } = await thread.call({ operation, argument });
    if (replaced !== undefined) {
      onReplaced(replaced);
    }
    return result as Awaited<ReturnType<JournalStore[Name]>>;
  }

  return {
    append: (entries) => call("append", entries),
    list: (page) => call("list", page),
    lastSeq: (runtime) => call("lastSeq", runtime),
    read: (reading) => call("read", reading),
    claimCursor: (claim) => call("claimCursor", claim),
    moveCursor: (move) => call("moveCursor", move),
    prune: (limits) => call("prune", limits),
    [Symbol.asyncDispose]: () => thread[Symbol.asyncDispose](),
  };
}
