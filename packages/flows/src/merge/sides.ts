import type { Configuration, FlowNode } from "../configuration.ts";
import { type CredentialSet, isSameSet } from "../credential-sets.ts";
import { nameOf } from "../nodes.ts";
import { isSameJson } from "../json.ts";

/** The two sides of a merge: the configuration to deploy, and the active one, which was deployed in the meantime. */
export type Side = "ours" | "theirs";

export type MergeResult =
  | {
      readonly kind: "merged";
      readonly configuration: Configuration;
      /** The nodes that differ from the base, and where their change is from. */
      readonly changes: readonly MergedChange[];
    }
  | { readonly kind: "conflict"; readonly conflicts: readonly MergeConflict[] };

export type MergedChange = {
  readonly nodeId: string;
  /** `both` made the same change, or one that is compatible: one side moved the node, and the other changed it. */
  readonly from: Side | "both";
};

export type MergeConflict = {
  readonly nodeId: string;
  readonly ours: SideChange;
  readonly theirs: SideChange;
  /** Why it is a conflict, for people. */
  readonly message: string;
};

export type SideChange = "none" | "added" | "changed" | "removed";

/** A node with its credentials. */
export type NodeVersion = { readonly node: FlowNode; readonly credentials: CredentialSet };

/** The nodes of a configuration by id. */
export type NodeVersions = ReadonlyMap<string, NodeVersion>;

/** The three versions in a merge: of a node, which can be undefined, or of all nodes. */
export type Versions<T> = { readonly base: T; readonly ours: T; readonly theirs: T };

export function readStates({ flows, credentials }: Configuration): NodeVersions {
  return new Map(flows.map((node) => [node.id, { node, credentials: credentials.get(node.id) }]));
}

export function isSameState(one: NodeVersion | undefined, other: NodeVersion | undefined): boolean {
  return one === undefined || other === undefined
    ? one === other
    : isSameJson(one.node, other.node) && isSameSet(one.credentials, other.credentials);
}

export function changeOf(base: NodeVersion | undefined, side: NodeVersion | undefined): SideChange {
  if (isSameState(base, side)) {
    return "none";
  }
  return base === undefined ? "added" : side === undefined ? "removed" : "changed";
}

/** A node that one or both sides changed. */
export type SideChanges = {
  readonly nodeId: string;
  readonly type: string;
  /** The name that the editor shows, if the node has one. */
  readonly name: string | undefined;
  readonly ours: SideChange;
  readonly theirs: SideChange;
};

/** Lists what two changes of one configuration have changed, node by node. */
export function compareSides(base: Configuration, ours: Configuration, theirs: Configuration): SideChanges[] {
  const states = { base: readStates(base), ours: readStates(ours), theirs: readStates(theirs) };
  const ids = new Set([...states.base.keys(), ...states.theirs.keys(), ...states.ours.keys()]);
  return [...ids].flatMap((id) => {
    const [before, our, their] = [states.base.get(id), states.ours.get(id), states.theirs.get(id)];
    const changes = { ours: changeOf(before, our), theirs: changeOf(before, their) };
    const node = (our ?? their ?? before)?.node;
    return node === undefined || (changes.ours === "none" && changes.theirs === "none")
      ? []
      : [{ nodeId: id, type: node.type, name: nameOf(node), ...changes }];
  });
}
