import type { HandlerContext } from "@connectrpc/connect";
import { peerKey } from "../../auth/principal.ts";
import type { FlowStore } from "../../store/flow-store.ts";
import type { Revision } from "../../store/revision.ts";
import { revisionNotFound } from "./restore.ts";

/**
 * Reads a revision for a response, with the memory that its flows take until that is sent. The active one is in memory anyway. Throws
 * `not_found`.
 */
export async function findRevision(
  store: Pick<FlowStore, "active" | "find" | "findEntry">,
  rev: string,
  { values }: Pick<HandlerContext, "values">,
): Promise<Revision> {
  if (rev !== store.active().rev) {
    const { sizeBytes = 0 } = (await store.findEntry(rev)) ?? {};
    await values.get(peerKey).reserveDocument?.(sizeBytes);
  }
  const revision = await store.find(rev);
  if (revision === undefined) {
    throw revisionNotFound(rev);
  }
  return revision;
}
