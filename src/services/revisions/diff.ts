import type { HandlerContext } from "@connectrpc/connect";
import {
  type DiffRevisionRequest,
  type DiffRevisionResponse,
  DiffRevisionResponseSchema,
} from "../../../gen/flowgate/v1/revisions_pb.ts";
import type { Analysis } from "../../analysis/analysis.ts";
import type { DiffCall } from "../../analysis/messages.ts";
import { callerOf } from "../../auth/origin.ts";
import { FlowgateError } from "../../errors.ts";
import { parseDocument } from "../../flows/document.ts";
import type { FlowStore } from "../../store/flow-store.ts";
import type { Revision } from "../../store/revision.ts";
import { analyzedResponse } from "../analysis-call.ts";
import { findRevision } from "../flows/find-revision.ts";

export type DiffRevisionOptions = {
  readonly store: Pick<FlowStore, "active" | "find" | "findEntry">;
  readonly analysis: Pick<Analysis, "diff">;
};

const noFlows: Pick<Revision, "flows" | "credentials"> = {
  flows: parseDocument(Buffer.from("[]")),
  credentials: new Map(),
};

/** Compares a revision with another one, by default with its parent. */
export async function diffRevision(
  { rev, base: requestedBase, restarts }: DiffRevisionRequest,
  context: HandlerContext,
  { store, analysis }: DiffRevisionOptions,
): Promise<DiffRevisionResponse> {
  if (restarts && requestedBase !== "") {
    throw new FlowgateError("invalid_argument", "restarts: can't be set with a base, since it is about the parent");
  }
  const find = (name: string): Promise<Revision> => findRevision(store, name, context);
  const target = await find(rev);
  const baseRev = requestedBase === "" ? target.parent : requestedBase;
  const base = baseRev === undefined ? noFlows : await find(baseRev);
  const deployment = restarts ? await recallDeployment(target, store) : undefined;
  const call = { base, target, deployment, names: { base: baseRev ?? "", rev } };
  return analyzedResponse(DiffRevisionResponseSchema, context, (format) =>
    analysis.diff({ ...call, format }, callerOf(context)),
  );
}

/** The deployment of a revision, as far as the outcomes of the revision and its parent show it. */
async function recallDeployment(
  { rev, parent = "", deploymentType: type }: Revision,
  store: DiffRevisionOptions["store"],
): Promise<DiffCall["deployment"]> {
  const missingTypes = (await store.findEntry(rev))?.outcome.missingTypes ?? [];
  return { type, missingTypes, isRunning: (await store.findEntry(parent))?.outcome.state !== "crashed" };
}
