import type { Merge } from "./analysis/analysis.ts";
import type { KeptCredentials } from "@flowgate/flows";
import type { ChangedContainer } from "@flowgate/flows/compare";
import { FlowgateError } from "@flowgate/flows/errors";
import type { RevisionDraft } from "../store/flow-store.ts";
import { type DraftWrites, LaterWrites } from "../store/node-credentials.ts";
import type { Revision } from "../store/revision.ts";
import { inSpan } from "../telemetry/trace.ts";
import {
  type Change,
  type CommitOptions,
  type Committed,
  type RevisionContent,
  type DeploymentCall,
  isMismatch,
  toDraft,
} from "./deployment.ts";
import { conflict, mergeConflict } from "./errors.ts";
import { determinedNodes, keepCredentials } from "./kept-credentials.ts";

/**
 * Commits a change. Without an expected revision, a change that loses a race is applied again, to the revision that won. With one,
 * it is merged with that revision if the caller asks for it, and rejected otherwise: with `version_mismatch`,
 * `precondition_failed` or `merge_conflict`.
 */
export async function commitChange(change: Change, call: DeploymentCall, options: CommitOptions): Promise<Committed> {
  const { store } = options;
  const { conditions, signal } = call;
  const expectedRev = await orRepeated(() => conditions.evaluate(store.active()), call, store);
  for (let attempt = 1; ; attempt += 1) {
    const active = store.active();
    const applied = await orRepeated(() => change.apply(active), call, store);
    const content = await keepCredentials(active, applied, store);
    if (call.authorize !== undefined && (expectedRev ?? active.rev) !== active.rev) {
      // The expected revision may become active before the commit, which must replace only flows that the change was
      // compared with.
      const stale = { change, call, expectedRev: expectedRev ?? active.rev };
      return orRepeated(() => mergeOrReject(stale, options), call, store);
    }
    const unapproved = await orRepeated(() => authorize(active, content, call, options), call, store);
    // The deadline may have passed while the change was prepared.
    signal.throwIfAborted();
    try {
      const writes = considerWrites(active, content, attempt);
      const draft = toDraft(change, { ...content, unapproved, writes }, call, expectedRev ?? active.rev);
      return { revision: await commitDraft(content, draft, call, options) };
    } catch (error) {
      if (error instanceof LaterWrites) {
        continue;
      }
      if (!isMismatch(error)) {
        throw error;
      }
      if (expectedRev !== undefined) {
        return mergeOrReject({ change, call, expectedRev }, options);
      }
    }
  }
}

/** Nodes that write all the time can't prevent deployments with their credentials. */
const maxAttempts = 3;

function considerWrites(
  active: Revision,
  { submitted, claimed }: RevisionContent & Pick<DraftWrites, "claimed">,
  attempt: number,
): DraftWrites {
  return {
    seq: active.writtenSeq ?? 0,
    submitted: determinedNodes(submitted),
    claimed,
    replacesLater: attempt >= maxAttempts,
  };
}

type Compared = RevisionContent & { readonly kept?: KeptCredentials };

/**
 * Throws if the caller may not make this change, and returns the parts without a required approval. For every
 * operation, its difference to the replaced revision counts.
 */
async function authorize(
  replaced: Revision,
  content: Compared,
  call: DeploymentCall,
  options: CommitOptions,
): Promise<string | undefined> {
  // The changes are found only if they matter.
  return call.authorize?.(await findChanges(replaced, content, call, options));
}

/**
 * Finds the nodes that a change touches. All nodes with submitted credentials count as changed: otherwise the result
 * would reveal whether credentials of other tabs were guessed.
 */
export async function findChanges(
  replaced: Revision,
  content: Compared,
  caller: Pick<DeploymentCall, "source" | "signal">,
  options: ChangesOptions,
): Promise<readonly ChangedContainer[]> {
  const { source, signal } = caller;
  const versions = { base: replaced, target: content, touched: submittedIds(content.submitted) };
  const changed = await options.analysis.findChangedContainers(versions, { source, signal });
  return [...changed, ...(await findOrigins(replaced, content, caller, options))];
}

export type ChangesOptions = {
  readonly store: Pick<CommitOptions["store"], "find">;
  readonly analysis: Pick<CommitOptions["analysis"], "findChangedContainers">;
};

function submittedIds(submitted: RevisionContent["submitted"]): ReadonlySet<string> {
  const inline = [...(submitted?.inline ?? [])].filter(([, set]) => set.size > 0);
  return new Set([...inline.map(([id]) => id), ...Object.keys(submitted?.topLevel?.nodes ?? {})]);
}

/**
 * Finds the original containers of nodes whose kept credentials a change reuses: a node with such an id may be on
 * another tab now.
 */
async function findOrigins(
  replaced: Revision,
  { credentials, kept }: Compared,
  { source, signal }: Pick<DeploymentCall, "source" | "signal">,
  { store, analysis }: ChangesOptions,
): Promise<readonly ChangedContainer[]> {
  const used = [...replaced.kept].filter(([id]) => kept?.has(id) === false && credentials.has(id));
  const origins: ChangedContainer[] = [];
  for (const [rev, entries] of Map.groupBy(used, ([, entry]) => entry.rev)) {
    const revision = await store.find(rev);
    if (revision !== undefined) {
      const versions = { base: revision, target: revision, touched: new Set(entries.map(([id]) => id)) };
      origins.push(...(await analysis.findChangedContainers(versions, { source, signal })));
    }
  }
  return origins;
}

/** Commits a draft of this content with its modules, which are installed before. */
function commitDraft(
  content: RevisionContent,
  draft: RevisionDraft,
  call: DeploymentCall,
  { store, modules }: CommitOptions,
): Promise<Revision> {
  const { trace, signal } = call;
  const attributes = { "flowgate.deployment.type": draft.deploymentType };
  // Who approves a proposal installs its modules.
  const installer = { ...call, origin: call.approval?.origin ?? call.origin };
  return modules.commit(content, installer, (needed) => {
    // Installing may have taken long.
    signal.throwIfAborted();
    return inSpan(trace, "store.commit", attributes, () => store.commit({ ...draft, modules: needed }, signal));
  });
}

/** If this step of a commit fails, and the idempotency key was used before, the error is a repeated request's. */
async function orRepeated<T>(
  step: () => T | Promise<T>,
  { origin, idempotencyKey }: DeploymentCall,
  store: CommitOptions["store"],
): Promise<T> {
  try {
    return await step();
  } catch (error) {
    // A repeated change may not be applicable to its own result, nor does its condition hold any more.
    const repeated = idempotencyKey === undefined ? undefined : await store.findRepeated(origin.by, idempotencyKey);
    throw repeated ?? error;
  }
}

type Mismatched = {
  readonly change: Change;
  readonly call: DeploymentCall;
  /** The revision that is not active any more. */
  readonly expectedRev: string;
};

/** Merges a change with the revisions that were committed after the expected one, or throws an error that describes them. */
async function mergeOrReject(mismatched: Mismatched, options: CommitOptions): Promise<Committed> {
  const { change, call } = mismatched;
  const { store } = options;
  for (let attempt = 1; ; attempt += 1) {
    const active = store.active();
    const merge = await compare(mismatched, options);
    if (!call.merge || merge === undefined) {
      throw conflict(active.rev, call.conditions, await store.findEntry(active.rev), merge?.changes);
    }
    if (merge.merged === undefined) {
      throw mergeConflict(merge, await store.findEntry(active.rev));
    }
    const { merged, submitted, modules } = merge;
    const content = await keepCredentials(active, { ...merged, submitted, modules }, store);
    const unapproved = await authorize(active, content, call, options);
    call.signal.throwIfAborted();
    try {
      const writes = considerWrites(active, content, attempt);
      const draft = {
        ...toDraft(change, { ...content, unapproved, writes }, call, active.rev),
        cause: "merge",
      } as const;
      return {
        revision: await commitDraft(content, draft, call, options),
        merge: { rev: active.rev, changes: merge.changes },
      };
    } catch (error) {
      // Another commit precedes this one again, or a node has written its credentials.
      if (!isMismatch(error) && !(error instanceof LaterWrites)) {
        throw error;
      }
    }
  }
}

/**
 * Undefined if the expected revision is not in the history, the change is not one of its flows, or they can only be described, which
 * exceeds a limit.
 */
async function compare(
  { change, call, expectedRev }: Mismatched,
  options: CommitOptions,
): Promise<(Merge & Pick<RevisionContent, "submitted" | "modules">) | undefined> {
  const { store, analysis } = options;
  const { merge, source, signal } = call;
  const base = change.cause === "deployment" ? await store.find(expectedRev) : undefined;
  if (base === undefined) {
    return undefined;
  }
  const ours = await change.apply(base);
  // The conflicts would reveal whether submitted credentials equal another tab's.
  await authorize(base, ours, call, options);
  const versions = { base, ours, theirs: store.active() };
  try {
    const { submitted, modules } = ours;
    return { ...(await analysis.merge(versions, { source, signal })), submitted, modules };
  } catch (error) {
    if (!merge && error instanceof FlowgateError && error.reason === "limit_exceeded") {
      return undefined;
    }
    throw error;
  }
}
