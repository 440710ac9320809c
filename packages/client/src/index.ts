// The services, nodes as JSON, and an interceptor that retries calls, to be used with a Connect transport
export {
  type AuditEntry,
  AuditEntrySchema,
  AuditKind,
  AuditKindSchema,
  AuditService,
  ListAuditEntriesResponseSchema,
  VerifyAuditResponseSchema,
} from "../../../gen/flowgate/v1/audit_pb.ts";
export {
  type ContextKeys,
  ContextService,
  DeleteContextResponseSchema,
  type GetContextResponse,
  GetContextResponseSchema,
  ListContextResponseSchema,
  SetContextResponseSchema,
} from "../../../gen/flowgate/v1/context_pb.ts";
export {
  type DebugEvent,
  type DeploymentEvent,
  type Event,
  EventKind,
  EventKindSchema,
  EventSchema,
  EventsService,
  LogLevel,
  LogLevelSchema,
  type NodeErrorEvent,
  type NodeStatusEvent,
} from "../../../gen/flowgate/v1/events_pb.ts";
export {
  type ContainerDiff,
  ContainerDiffSchema,
  ContainerKind,
  type CredentialNames,
  type FlowsDiff,
  FlowsDiffSchema,
  NodeAspect,
  NodeChange,
  NodeChangeSchema,
  type NodeDiff,
  NodeRole,
  type PropertyChange,
} from "../../../gen/flowgate/v1/diff_pb.ts";
export { AuthService, type Prompt } from "../../../gen/flowgate/v1/auth_pb.ts";
export {
  type Condition,
  ConditionKind,
  ConditionKindSchema,
  type Health,
  HealthState,
  HealthStateSchema,
} from "../../../gen/flowgate/v1/health_pb.ts";
export {
  type ChangeFlowResponse,
  ChangeFlowResponseSchema,
  type ConcurrentChange,
  type Credentials,
  CredentialsSchema,
  DeploymentErrorReason,
  DeploymentErrorSchema,
  DeploymentOutcome,
  DeploymentOutcomeSchema,
  DeploymentType,
  DeploymentTypeSchema,
  type Flow,
  FlowSchema,
  type FlowModule,
  FlowModuleSchema,
  FlowsService,
  GetFlowsResponseSchema,
  ModuleState,
  type Node,
  NodeAction,
  NodeSchema,
  OnFailure,
  type PlannedNode,
  type PlanFlowsResponse,
  PlanFlowsResponseSchema,
  type PlanWarning,
  PlanWarningKind,
  type RequiredModule,
  type Revision,
  RevisionCause,
  RevisionCauseSchema,
  RevisionSchema,
  type SetFlowsRequest,
  SetFlowsRequestSchema,
  type SetFlowsResponse,
  SetFlowsResponseSchema,
} from "../../../gen/flowgate/v1/flows_pb.ts";
export { LibraryService } from "../../../gen/flowgate/v1/library_pb.ts";
export { ListLogsResponseSchema, LogsService } from "../../../gen/flowgate/v1/logs_pb.ts";
export {
  type ChangeModuleResponse,
  ChangeModuleResponseSchema,
  ListModulesResponseSchema,
  type Module,
  ModulesService,
} from "../../../gen/flowgate/v1/modules_pb.ts";
export {
  ListProposalsResponseSchema,
  type Proposal,
  ProposalSchema,
  ProposalsService,
  ProposalState,
  ProposalStateSchema,
  ProposalView,
} from "../../../gen/flowgate/v1/proposals_pb.ts";
export {
  type DiffRevisionResponse,
  DiffRevisionResponseSchema,
  ListRevisionsResponseSchema,
  RevisionsService,
  RevisionView,
} from "../../../gen/flowgate/v1/revisions_pb.ts";
export {
  type DiskUsage,
  type FlowState,
  type GetRuntimeResponse,
  GetRuntimeResponseSchema,
  type ListNodeStatusesResponse,
  ListNodeStatusesResponseSchema,
  type NodeState,
  InjectNodeResponseSchema,
  type ProcessUsage,
  RestartRuntimeResponseSchema,
  RuntimeService,
  StartFlowsResponseSchema,
  StopFlowsResponseSchema,
} from "../../../gen/flowgate/v1/runtime_pb.ts";
export {
  type GetSettingsResponse,
  GetSettingsResponseSchema,
  type Replica,
  ReplicaSchema,
  type Runtime,
  RuntimeMode,
  RuntimeModeSchema,
  RuntimeSchema,
  type Isolation,
  IsolationLevel,
  IsolationLevelSchema,
  IsolationSchema,
  RuntimeState,
  RuntimeStateSchema,
  SettingsService,
  UserSchema,
} from "../../../gen/flowgate/v1/settings_pb.ts";
export {
  CreateTokenResponseSchema,
  ListTokensResponseSchema,
  type Token,
  TokensService,
} from "../../../gen/flowgate/v1/tokens_pb.ts";
export { ErrorInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";
export { formatDebugValue } from "./debug-value.ts";
export { NodeJsonError, nodeCredentialsFromJson, nodeFromJson, nodeToJson } from "./node-json.ts";
export { permits } from "./permissions.ts";
export { retryInterceptor, type RetryOptions } from "./retry.ts";
