export {
  acceptsMap,
  flattenMap,
  mergeCredentials,
  mergeSet,
  parseCredentialSet,
  placeholder,
  type Decrypt,
  type SubmittedCredentials,
  type SubmittedSet,
  type SubmittedSets,
} from "./credentials.ts";
export { changedCredentials, isSameSet, type CredentialSet, visitCredentials } from "./credential-sets.ts";
export { containerIdOf, findMissingTabs, hasPosition, nameOf, roleOf } from "./nodes.ts";
export {
  deploymentTypeNames,
  type Configuration,
  type CredentialSets,
  type CredentialValue,
  type CurrentCredentials,
  type DeploymentType,
  type FlowNode,
  type KeptCredentials,
} from "./configuration.ts";
export {
  findJsonViolation,
  findKeyViolation,
  findTextViolation,
  invalidFlows,
  maxNodeDepth,
  quoteInput,
  type Violation,
} from "./violation.ts";
export {
  findTypes,
  findTypesOf,
  formatDocument,
  isLong,
  parseDocument,
  readTypes,
  type FlowsDocument,
  type NodeTypes,
} from "./document.ts";
export {
  findViolation,
  findViolations,
  globalFlowId,
  parseFlows,
  toSubmittedNodes,
  type SubmittedNode,
  type LocatedNode,
  parseNodes,
  type ParsedFlows,
} from "./parse-flows.ts";
export { isJsonObject } from "./json.ts";
export { toKey } from "./plan/runtime-flows.ts";
export { Budget } from "./budget.ts";
export {
  findMissingTypes,
  findRequiredModules,
  needsModule,
  planModules,
  type FlowNeeds,
  type KnownModule,
  type PlannedModule,
} from "./plan/requirements.ts";
export { findWarnings } from "./plan/warnings.ts";
