import type { FlowNode } from "../configuration.ts";

/**
 * What the classification of nodes has found so far, by id. The values are the nodes; undefined for a tab that does not exist.
 */
export type Marks = {
  readonly added: Map<string, FlowNode | undefined>;
  /** `"member"` if only the group is changed. */
  readonly changed: Map<string, FlowNode | "member">;
  readonly removed: Map<string, FlowNode | undefined>;
  readonly rewired: Map<string, FlowNode>;
  readonly tabs: Set<string>;
  readonly subflows: Set<string>;
  isGlobal: boolean;
};
