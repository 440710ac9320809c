import type { HandlerContext } from "@connectrpc/connect";
import { peerKey } from "../../auth/principal.ts";
import { FlowgateError } from "../../errors.ts";
import type { FlowStore } from "../../store/flow-store.ts";
import type { Revision } from "../../store/revision.ts";

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

export function revisionNotFound(rev: string): FlowgateError {
  return new FlowgateError(
    "not_found",
    `there is no revision ${JSON.stringify(rev.slice(0, 64))}; it may have been removed from the history`,
  );
}
