import { create } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { RevisionSchema } from "../../../gen/flowgate/v1/flows_pb.ts";
import { type GetRevisionRequest, type RevisionsService, RevisionView } from "../../../gen/flowgate/v1/revisions_pb.ts";
import { originOf } from "../../auth/origin.ts";
import type { ObservedDeployer } from "../../deployments/observed-deployer.ts";
import type { OutcomeRecorder } from "../../deployments/outcome-recorder.ts";
import { toRevision } from "../../deployments/revision-message.ts";
import { toNodes } from "../../flows/to-nodes.ts";
import type { AuditRecord } from "../../store/audit-store.ts";
import type { FlowStore } from "../../store/flow-store.ts";
import type { RevisionState } from "../../store/revision.ts";
import { readDeploymentCall } from "../deployment-call.ts";
import { findRevision, revisionNotFound } from "../flows/find-revision.ts";
import { toSetFlowsResponse } from "../flows/responses.ts";
import { parseTypeWithoutReload, restoreChange, type RestoreOptions } from "../flows/restore.ts";
import { formatPageToken, parsePageToken, readPageSize } from "../pages.ts";
import { parseMessage } from "../revision-text.ts";
import { diffRevision, type DiffRevisionOptions } from "./diff.ts";
import { parseFilter } from "./list-request.ts";

export type RevisionsServiceOptions = DiffRevisionOptions &
  RestoreOptions & {
    readonly store: FlowStore;
    readonly deployer: ObservedDeployer;
    /** The number of revisions that can be pinned. */
    readonly maxPinned: number;
    /** Reads wait until the outcomes are recorded that the caller may know already from the response to a deployment. */
    readonly outcomes: Pick<OutcomeRecorder, "flush">;
  };

export function revisionsService({
  store,
  deployer,
  outcomes,
  analysis,
  maxPinned,
}: RevisionsServiceOptions): ServiceImpl<typeof RevisionsService> {
  const activeRev = (): string => store.active().rev;

  async function getRevision({ rev, view }: GetRevisionRequest, context: HandlerContext) {
    await outcomes.flush();
    const entry = await store.findEntry(rev);
    const revision = view === RevisionView.FULL ? await findRevision(store, rev, context) : undefined;
    if (entry === undefined) {
      throw revisionNotFound(rev);
    }
    return create(RevisionSchema, {
      ...toRevision(entry, activeRev()),
      ...(revision !== undefined && { flows: toNodes(revision.flows.nodes) }),
    });
  }

  return {
    async listRevisions(request) {
      await outcomes.flush();
      const { revisions, next } = await store.list({
        limit: readPageSize(request.pageSize),
        before: parsePageToken(request.pageToken),
        filter: parseFilter(request),
      });
      return {
        revisions: revisions.map((entry) => toRevision(entry, activeRev())),
        nextPageToken: formatPageToken(next),
      };
    },

    getRevision,

    async updateRevision({ rev, message, pinned }, context) {
      const change: Partial<RevisionState> = {
        ...(message !== undefined && { message: parseMessage(message, undefined) }),
        ...(pinned !== undefined && { pinned }),
      };
      const changed = Object.keys(change).join(", ");
      const audit: AuditRecord = { kind: "revision_updated", origin: originOf(context), subject: rev, detail: changed };
      const entry = changed === "" ? await store.findEntry(rev) : await store.update(rev, change, audit, maxPinned);
      if (entry === undefined) {
        throw revisionNotFound(rev);
      }
      return create(RevisionSchema, toRevision(entry, activeRev()));
    },

    async diffRevision(request, context) {
      await outcomes.flush();
      return diffRevision(request, context, { store, analysis });
    },

    async restoreRevision(request, context) {
      const type = parseTypeWithoutReload(request.deploymentType);
      const change = restoreChange(request.rev, type, context, { store, analysis });
      const call = readDeploymentCall(request, request.activeRev, context);
      return toSetFlowsResponse(await deployer.deploy(change, call));
    },
  };
}
