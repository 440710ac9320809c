// Running a gateway
export { openGateway, type Gateway, type GatewayOptions } from "./gateway.ts";
export { OptionsError, parseOptions, type Options, type OptionsInput } from "./options/parse.ts";

// The components of a gateway, for custom compositions
export { openStore, type StoreOptions } from "./store/open-store.ts";
export type {
  AuditEntry,
  AuditHead,
  AuditKind,
  AuditPage,
  AuditQuery,
  AuditRecord,
  AuditStore,
  AuditVerification,
  FlowStore,
  ListedToken,
  Origin,
  Revision,
  RevisionDraft,
  RevisionEvent,
  RevisionPage,
  RevisionSummary,
  Store,
  StoredToken,
  StoreHealth,
  TokenPage,
  TokenQuery,
  TokenSelector,
  TokenStore,
} from "./store/store.ts";
export type { CredentialSets, DeploymentType, FlowNode } from "./flows/configuration.ts";
export { formatDocument, parseDocument, type FlowsDocument } from "./flows/document.ts";
export { openRuntime } from "./runtime/supervisor.ts";
export type { SandboxPermissions, RuntimeOptions } from "./runtime/options.ts";
export type { Runtime, RuntimeState, RuntimeStatus } from "./runtime/runtime.ts";
export { FlowgateError, type Reason } from "./errors.ts";
