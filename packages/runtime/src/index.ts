// Running flows
export { openRuntime } from "./supervisor.ts";
export { createRevision, type Revision } from "./revision.ts";
export {
  isIncomplete,
  isRunning,
  outcomeMessage,
  runtimeStates,
  type DeploymentResult,
  type ModulesResult,
  type RevisionResult,
  type Runtime,
  type RuntimeProcessStats,
  type RuntimeState,
  type RuntimeStateReason,
  type RuntimeStatus,
  type WaitOptions,
} from "./runtime.ts";
export { describeFault, type Fault } from "./fault.ts";
export { endLeftovers } from "./leftover.ts";

// Options
export {
  runtimeDefaults,
  type Boundary,
  type BoundaryLevel,
  type DesiredState,
  type RuntimeLog,
  type RuntimeOptions,
  type SandboxPermissions,
} from "./options.ts";
export type {
  Certificate,
  ContextStorage,
  ContextStoreOptions,
  FlowCors,
  FlowHttp,
  FlowSettings,
  FlowUser,
} from "./flow-settings.ts";
export { parseNetworkRule, type NetworkAccess, type NetworkRule } from "./network-policy.ts";
export { hasWildcard } from "./sandbox.ts";
export { passedVariables } from "@flowgate/base/passed-variables";
export { ProtectedPorts, endpointOf, protectServers, type Endpoint } from "./protected-ports.ts";
export { canFlowsWrite, describeWritableModules, type WritableFolders } from "./writable-folders.ts";
export type {
  ContextChange,
  ContextStore,
  ContextValue,
  CredentialWrite,
  CredentialWriteResult,
  NodeStorage,
  SettingChange,
  SettingStore,
} from "./storage.ts";

// What flows do
export type { LogEntry, LogLevel } from "./messages.ts";
export {
  cutText,
  isNodeError,
  maxEventCount,
  type DroppedEvents,
  type EditorMessage,
  type NodeCounts,
  type NodeDebug,
  type NodeError,
  type NodeEvent,
  type NodeEvents,
  type NodeObserver,
  type NodeRef,
  type NodeStatus,
} from "./node-events.ts";
export { FlowStats } from "./flow-stats.ts";
export type { NodeReading, TabReading } from "./measurements.ts";
export type { FlowSpan, FlowTraces } from "./flow-spans.ts";
export { maxSyncChars, type Redact, type Redaction } from "./redaction.ts";

// What flows can be asked for, by `Runtime.call` and `Runtime.connectAdmin`
export type { CallOptions, Procedure } from "./calls.ts";
export { injectNode, type InjectArgument, type InjectResult } from "./inject-procedure.ts";
export {
  deleteContext,
  getContext,
  listContext,
  setContext,
  type ContextKeys,
  type ContextList,
  type ContextScope,
  type NoContext,
  type ReadContextValue,
} from "./context-procedures.ts";
export {
  readDiagnostics,
  readEditorContext,
  readEditorSettings,
  readNodeCredentials,
  type EditorContextArgument,
} from "./editor-procedures.ts";
export { callerHeaders } from "./node-permissions.ts";

// For other implementations of `Runtime`
export { findBoundary } from "./boundary.ts";
export { flowsStopped, noRuntime } from "./calls.ts";
export { createWaiter, deploymentWaitMs, restartsAllNodes, type Waiter } from "./deployment-queue.ts";
export { addMs, currentInstant, msUntil, type Fence, type Instant } from "./fence.ts";
export { pending, running, stopped } from "./runtime.ts";
export { StateReporter } from "./state-reporter.ts";
