export { compareSides, type MergeConflict, type SideChange, type SideChanges } from "./merge/sides.ts";
export { diffFlows } from "./diff/diff-flows.ts";
export { diffOrder } from "./diff/order.ts";
export { findAffected, type AffectedNodes } from "./plan/affected-nodes.ts";
export { findChangedContainers, type ChangedContainer } from "./diff/changed-containers.ts";
export { formatDiff } from "./diff/format-diff.ts";
export { formatPlan, planDeployment, type DeploymentPlan, type PlannedNode, type RuntimeView } from "./plan/plan.ts";
export { mergeFlows } from "./merge/merge-flows.ts";
export { type FlowsDiff, type NodeDiff } from "./diff/differences.ts";
