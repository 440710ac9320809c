import {
  type CredentialSets,
  type KeptCredentials,
  type SubmittedCredentials,
  mergeSet,
  parseCredentialSet,
  placeholder,
  findTypes,
} from "@flowgate/flows";
import type { FlowStore } from "../store/flow-store.ts";
import type { DraftWrites } from "../store/node-credentials.ts";
import type { Revision } from "../store/revision.ts";
import type { RevisionContent } from "./deployment.ts";

/** More nodes are forgotten, the first that were removed first. */
const maxKept = 1_000;

/** Each revision records the names again, so they are limited. */
const maxNames = 20;
const maxNameLength = 100;

type Types = ReadonlyMap<string, string>;

/** Content with all credentials of its nodes. */
type Completed = RevisionContent & {
  readonly kept: KeptCredentials;
  readonly missing: KeptCredentials;
  /** The new nodes for which credentials were written before. */
  readonly claimed: readonly string[];
};

export type KeptStore = Pick<FlowStore, "findCredentials" | "unclaimedCredentials">;

/**
 * Completes the content of the revision that replaces `active`. A node that gets another type keeps no credentials,
 * since it could send them elsewhere. Credentials of such nodes, and of removed nodes, stay in the revisions that have
 * them; the new one records which. Nodes that come back, with their type and without credentials of their own, get them
 * again, unless the content determines that they have none, or the retention has removed the revision. `missing` lists
 * nodes that do not, except submitted ones. New nodes get the credentials written for them before.
 */
export async function keepCredentials(
  active: Revision,
  content: RevisionContent,
  store: KeptStore,
): Promise<Completed> {
  const completed = await keepEarlier(active, content, store);
  const { credentials, claimed } = claim(active, completed, store.unclaimedCredentials());
  return { ...completed, credentials, claimed };
}

/** Gives new nodes the credentials written for them, unless the request has others. */
function claim(
  active: Revision,
  { flows, credentials, submitted }: RevisionContent,
  unclaimed: CredentialSets,
): Pick<Completed, "credentials" | "claimed"> {
  const ids = new Set(unclaimed.keys());
  const before = findTypes(active.flows, ids);
  const claimed = [...findTypes(flows, ids).keys()].filter((id) => !before.has(id));
  if (claimed.length === 0) {
    return { credentials, claimed };
  }
  const all = new Map(credentials);
  for (const id of claimed.filter((each) => submitted === undefined || !replaces(submitted, each))) {
    all.set(id, mergeSet(unclaimed.get(id), submitted?.inline.get(id)) ?? new Map());
  }
  return { credentials: all, claimed };
}

async function keepEarlier(
  active: Revision,
  content: RevisionContent,
  store: KeptStore,
): Promise<Omit<Completed, "claimed">> {
  if (active.kept.size === 0 && active.credentials.size === 0) {
    return { ...content, kept: active.kept, missing: new Map() };
  }
  const ids = new Set([...active.kept.keys(), ...active.credentials.keys()]);
  const before = findTypes(active.flows, ids);
  const types = findTypes(content.flows, ids);
  const own = dropOfOtherTypes(active.credentials, content, before, types);
  const kept = new Map<string, KeptEntry>();
  const missing = new Map<string, KeptEntry>();
  const returned = new Map<string, KeptEntry>();
  for (const [id, entry] of active.kept) {
    const type = types.get(id);
    const isDetermined = own.has(id) || content.submitted === undefined || determines(content.submitted, id);
    if (type !== entry.type) {
      kept.set(id, entry);
      if (type !== undefined && !before.has(id) && !isDetermined) {
        missing.set(id, entry);
      }
    } else if (!isDetermined) {
      returned.set(id, entry);
    }
  }
  for (const [id, set] of active.credentials) {
    const type = before.get(id);
    // Otherwise the node has them still, or the request has removed them from it.
    if (type !== undefined && type !== types.get(id)) {
      kept.delete(id);
      kept.set(id, { type, rev: active.rev, names: namesOf(set) });
    }
  }
  const credentials = await restore(own, returned, store);
  for (const [id, entry] of returned) {
    if (!credentials.has(id)) {
      missing.set(id, entry);
    }
  }
  return { ...content, credentials, kept: new Map([...kept].slice(-maxKept)), missing };
}

type KeptEntry = KeptCredentials extends ReadonlyMap<string, infer Entry> ? Entry : never;

function namesOf(set: ReadonlyMap<string, unknown>): readonly string[] {
  return [...set.keys()].filter((name) => name.length <= maxNameLength).slice(0, maxNames);
}

/** Nodes whose type changes get submitted credentials only. */
function dropOfOtherTypes(
  current: CredentialSets,
  { credentials, submitted }: RevisionContent,
  before: Types,
  types: Types,
): CredentialSets {
  const changed = [...current.keys()].filter(
    (id) => credentials.has(id) && before.has(id) && before.get(id) !== types.get(id),
  );
  if (submitted === undefined || submitted.topLevel?.encrypted !== undefined || changed.length === 0) {
    return credentials;
  }
  const remaining = new Map(credentials);
  for (const id of changed) {
    const separate = submitted.topLevel?.nodes[id];
    const set = mergeSet(separate && parseCredentialSet(separate), submitted.inline.get(id));
    if (set !== undefined && set.size > 0) {
      remaining.set(id, set);
    } else {
      remaining.delete(id);
    }
  }
  return remaining;
}

/** Adds the credentials of nodes that come back. */
async function restore(sets: CredentialSets, returned: KeptCredentials, store: KeptStore): Promise<CredentialSets> {
  const all = new Map(sets);
  for (const [rev, entries] of Map.groupBy(returned, ([, { rev }]) => rev)) {
    const found = await store.findCredentials(rev, new Map(entries.map(([id, { type }]) => [id, type])));
    for (const [id] of entries) {
      const set = found?.get(id);
      if (set !== undefined) {
        all.set(id, set);
      }
    }
  }
  return all.size === sets.size ? sets : all;
}

/** True if a request determines the credentials of a node, or that it has none. */
function determines(submitted: SubmittedCredentials, id: string): boolean {
  return (submitted.inline.get(id)?.size ?? 0) > 0 || replaces(submitted, id);
}

/** True if a request replaces all credentials of a node. */
function replaces({ topLevel }: SubmittedCredentials, id: string): boolean {
  return topLevel?.encrypted !== undefined || Object.hasOwn(topLevel?.nodes ?? {}, id);
}

/** The nodes for which a request has credentials, which replace the stored ones. */
export function determinedNodes(submitted: SubmittedCredentials | undefined): DraftWrites["submitted"] {
  if (submitted?.topLevel?.encrypted !== undefined) {
    return "all";
  }
  const inline = [...(submitted?.inline ?? [])].filter(([, set]) =>
    set.values().some((value) => value !== placeholder),
  );
  return new Set([...inline.map(([id]) => id), ...Object.keys(submitted?.topLevel?.nodes ?? {})]);
}
