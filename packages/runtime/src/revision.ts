import { type CredentialSets, type FlowNode, type FlowsDocument, formatDocument } from "@flowgate/flows";

/** A version of the flows, with the credentials of their nodes. Immutable. */
export type Revision = {
  /** Opaque id. */
  readonly rev: string;
  /** Of two revisions, the runtime runs the one with the higher number. */
  readonly seq: number;
  readonly flows: Pick<FlowsDocument, "json" | "count">;
  readonly credentials: CredentialSets;
};

/** Creates a revision from nodes, as an export of Node-RED's editor has them, and the credentials of these by their ids. */
export function createRevision(
  seq: number,
  nodes: readonly FlowNode[],
  credentials: CredentialSets = new Map(),
): Revision {
  return { rev: String(seq), seq, flows: formatDocument(nodes), credentials };
}
