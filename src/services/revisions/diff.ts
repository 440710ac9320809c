import { create } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import {
  type DiffRevisionRequest,
  type DiffRevisionResponse,
  DiffRevisionResponseSchema,
} from "../../../gen/flowgate/v1/revisions_pb.ts";
import type { Analysis } from "../../analysis/analysis.ts";
import { originOf } from "../../auth/origin.ts";
import { FlowgateError } from "../../errors.ts";
import { parseDocument } from "../../flows/document.ts";
import type { RuntimeView } from "../../flows/plan/plan.ts";
import type { FlowStore } from "../../store/flow-store.ts";
import type { Revision } from "../../store/revision.ts";
import { setDiff } from "../diff-field.ts";
import { findRevision } from "../flows/find-revision.ts";
import { retainingMemory } from "../retain-memory.ts";
import { assertPlanned, toPlannedNodes } from "../flows/plan-message.ts";

export type DiffRevisionOptions = {
  readonly store: Pick<FlowStore, "active" | "find" | "findEntry">;
  readonly analysis: Pick<Analysis, "diff" | "plan">;
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
  const names = { base: baseRev ?? "", rev };
  const encodes = originOf(context).protocol === "rest";
  if (!restarts) {
    const { diff, text } = await retainingMemory(context, () => analysis.diff({ base, target, encodes }));
    return setDiff(create(DiffRevisionResponseSchema, { ...names, text }), diff);
  }
  const runtime = await recallRuntime(target, store);
  const call = { base, target, current: base, type: target.deploymentType, runtime, encodes };
  const { diff, text, plan } = await retainingMemory(context, () => analysis.plan(call));
  assertPlanned(plan);
  const nodes = toPlannedNodes(plan.nodes);
  return setDiff(create(DiffRevisionResponseSchema, { ...names, text, nodes }), diff);
}

/** What the runtime was when a revision was deployed, as far as the outcomes of the revision and its parent show it. */
async function recallRuntime(
  { rev, parent = "", flows }: Revision,
  store: DiffRevisionOptions["store"],
): Promise<RuntimeView> {
  const missing = new Set((await store.findEntry(rev))?.outcome.missingTypes);
  const knownTypes = missing.size === 0 ? undefined : new Set(flows.nodes.map(({ type }) => type)).difference(missing);
  return { knownTypes, isRunning: (await store.findEntry(parent))?.outcome.state !== "crashed" };
}
