import type { CredentialSets, KeptCredentials } from "../flows/configuration.ts";
import type { SubmittedCredentials } from "../flows/credentials.ts";
import type { FlowStore } from "../store/flow-store.ts";
import type { Revision } from "../store/revision.ts";
import type { Content } from "./change.ts";

/** More removed nodes are forgotten, the first that were removed first. */
const maxKept = 1_000;

/**
 * Completes the content of the revision that replaces `active`. Credentials of nodes that it removes stay in the revisions that have
 * them; the new one records which. Nodes that it brings back, with their type and without credentials of their own, get them again,
 * unless the content determines that they have none, or the retention has removed the revision.
 */
export async function keepCredentials(
  active: Revision,
  content: Content,
  store: Pick<FlowStore, "findCredentials">,
): Promise<Content & { readonly kept: KeptCredentials }> {
  const removed = [...active.credentials.keys()].filter((id) => !content.credentials.has(id));
  if (active.kept.size === 0 && removed.length === 0) {
    return { ...content, kept: active.kept };
  }
  const types = new Map(content.flows.nodes.map(({ id, type }) => [id, type]));
  const kept = new Map<string, { readonly type: string; readonly rev: string }>();
  const restored = new Map<string, string>();
  for (const [id, entry] of active.kept) {
    // A node of another type does not get them, since it could send them elsewhere.
    if (types.get(id) !== entry.type) {
      kept.set(id, entry);
    } else if (!content.credentials.has(id) && content.determinesCredentials?.(id) === false) {
      restored.set(id, entry.rev);
    }
  }
  const typesBefore = removed.length === 0 ? undefined : new Map(active.flows.nodes.map(({ id, type }) => [id, type]));
  for (const id of removed) {
    const type = typesBefore?.get(id);
    // Otherwise the request has removed them from the node.
    if (type !== undefined && type !== types.get(id)) {
      kept.delete(id);
      kept.set(id, { type, rev: active.rev });
    }
  }
  const credentials = await restore(content.credentials, restored, store);
  return { ...content, credentials, kept: new Map([...kept].slice(-maxKept)) };
}

/** `revs` has the revisions with the credentials to add, by node id. */
async function restore(
  sets: CredentialSets,
  revs: ReadonlyMap<string, string>,
  store: Pick<FlowStore, "findCredentials">,
): Promise<CredentialSets> {
  const all = new Map(sets);
  for (const [rev, entries] of Map.groupBy(revs, ([, rev]) => rev)) {
    const found = await store.findCredentials(rev);
    for (const [id] of entries) {
      const set = found?.get(id);
      if (set !== undefined) {
        all.set(id, set);
      }
    }
  }
  return all.size === sets.size ? sets : all;
}

/** Whether a request determines the credentials of a node, also that it has none. */
export function determinesCredentials({ inline, topLevel }: SubmittedCredentials): (id: string) => boolean {
  const named = topLevel?.nodes ?? {};
  return (id) => topLevel?.encrypted !== undefined || (inline.get(id)?.size ?? 0) > 0 || Object.hasOwn(named, id);
}
