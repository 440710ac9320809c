import type { MessageInitShape } from "@bufbuild/protobuf";
import type { DiffRevisionRequest, DiffRevisionResponseSchema } from "../../../gen/flowgate/v1/revisions_pb.ts";
import type { Analysis } from "../../analysis/analysis.ts";
import { parseDocument } from "../../flows/document.ts";
import type { FlowStore, Revision } from "../../store/store.ts";
import { toFlowsDiff } from "../diff-message.ts";
import { revisionNotFound } from "../flows/restore.ts";

export type DiffRevisionOptions = {
  readonly store: Pick<FlowStore, "find">;
  readonly analysis: Pick<Analysis, "diff">;
};

const noFlows: Pick<Revision, "flows" | "credentials"> = {
  flows: parseDocument(Buffer.from("[]"), 0),
  credentials: new Map(),
};

/** Compares a revision with another one, by default with its parent. */
export async function diffRevision(
  { rev, base }: DiffRevisionRequest,
  { store, analysis }: DiffRevisionOptions,
): Promise<MessageInitShape<typeof DiffRevisionResponseSchema>> {
  const find = async (name: string): Promise<Revision> => {
    const revision = await store.find(name);
    if (revision === undefined) {
      throw revisionNotFound(name);
    }
    return revision;
  };
  const target = await find(rev);
  const baseRev = base === "" ? target.parent : base;
  const { diff, text } = await analysis.diff({ base: baseRev === undefined ? noFlows : await find(baseRev), target });
  return { base: baseRev ?? "", rev, diff: toFlowsDiff(diff), text };
}
