import { RevisionSchema } from "@flowgate/client";
import type { ClientContext } from "../client/client-action.ts";
import { describeRevision } from "./describe-revision.ts";
import { findRevision } from "./find-revision.ts";

/** Changes the pin or the message of a revision. */
export async function updateRevision(
  { session, output }: ClientContext,
  name: string,
  change: { readonly pinned?: boolean; readonly message?: string },
): Promise<void> {
  const { rev } = await findRevision(session, name);
  const revision = await session.revisions.updateRevision({ rev, ...change });
  const state = revision.pinned ? "pinned" : "not pinned";
  output.message(RevisionSchema, revision, () => `${describeRevision(revision)} is ${state}.`);
}
