import { extname } from "node:path";
import type { Logger } from "pino";
import type { CredentialSets } from "../flows/configuration.ts";
import { type FlowsDocument, parseDocument } from "../flows/document.ts";
import { createThread } from "../thread.ts";
import type { ContentBytes, MergeCall, MergeReply } from "./messages.ts";

/** Flows and credentials of a revision. */
type Content = { readonly flows: FlowsDocument; readonly credentials: CredentialSets };

export type Merge = Pick<MergeReply, "changes" | "conflicts"> & {
  /** Undefined if there are conflicts. */
  readonly merged: Content | undefined;
};

/** Compares flows in a thread. Disposing stops it. */
export interface Comparison extends AsyncDisposable {
  /** Merges two changes of one configuration. Rejects with `unavailable` if the thread exits. */
  merge(base: Content, ours: Content, theirs: Content): Promise<Merge>;
}

export function openComparison(log: Logger): Comparison {
  const thread = createThread<MergeCall, MergeReply>({
    name: "flowgate comparisons",
    // The extension is .ts in the sources and .js in the build.
    entry: new URL(`./thread${extname(import.meta.url)}`, import.meta.url),
    data: undefined,
    onUnexpectedExit: (err) => log.error({ err }, "the thread that compares flows exited"),
  });
  return {
    async merge(base, ours, theirs) {
      const { changes, conflicts, merged } = await thread.call({
        base: toBytes(base),
        ours: toBytes(ours),
        theirs: toBytes(theirs),
      });
      return {
        changes,
        conflicts,
        merged: merged && { flows: parseDocument(merged.json, merged.count), credentials: merged.credentials },
      };
    },
    [Symbol.asyncDispose]: () => thread[Symbol.asyncDispose](),
  };
}

function toBytes({ flows, credentials }: Content): ContentBytes {
  return { json: flows.json, credentials };
}
