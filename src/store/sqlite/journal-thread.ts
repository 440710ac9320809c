// The thread of the journal, so that neither the event loop nor deployments wait for it.
import { workerData } from "node:worker_threads";
import { serveThread } from "@flowgate/base/thread";
import { JournalDatabase } from "./journal-database.ts";
import type { JournalCall, JournalReply, JournalThreadData } from "./journal-store.ts";

const { path } = workerData as JournalThreadData;
let replaced: string | undefined;
const journal = new JournalDatabase(path, (reason) => {
  replaced = reason;
});

async function run({ operation, argument }: JournalCall): Promise<JournalReply> {
  replaced = undefined;
  const result = await (journal[operation] as (argument: unknown) => Promise<unknown>).call(journal, argument);
  return { result, replaced };
}

serveThread<JournalCall, JournalReply>(
  async (call) => ({ reply: await run(call) }),
  () => journal[Symbol.dispose](),
);
