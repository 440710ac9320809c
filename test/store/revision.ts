import type { CredentialSets, FlowNode } from "@flowgate/flows";
import type { Revision } from "../../src/store/revision.ts";
import { documentOf } from "../../packages/flows/test/builders.ts";

export function revision(seq: number, flows: readonly FlowNode[], credentials: CredentialSets = new Map()): Revision {
  return {
    rev: `r${seq}`,
    parent: undefined,
    seq,
    committedAtMs: 0,
    by: undefined,
    address: undefined,
    protocol: undefined,
    requestId: undefined,
    cause: "deployment",
    restoredRev: undefined,
    nodeCount: flows.length,
    sizeBytes: 0,
    deploymentType: "full",
    flows: documentOf(flows),
    credentials,
    kept: new Map(),
  };
}
