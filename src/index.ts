// Running the service
export { openFlowgate, type Flowgate, type FlowgateOptions } from "./app/flowgate.ts";
export { OptionsError, parseOptions, type Options, type OptionsInput } from "./options/parse.ts";

// A store that is opened by the program, and its types
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
} from "./store/audit-store.ts";
export type { FlowStore, RevisionDraft, RevisionEvent, RevisionPage } from "./store/flow-store.ts";
export type { Origin } from "./store/audit-store.ts";
export type { Revision, RevisionSummary } from "./store/revision.ts";
export type { Store, StoreHealth } from "./store/store.ts";
export type {
  ListedToken,
  StoredToken,
  TokenPage,
  TokenQuery,
  TokenSelector,
  TokenStore,
} from "./store/token-store.ts";
export type { CredentialSets, DeploymentType, FlowNode } from "@flowgate/flows";
export { formatDocument, parseDocument, type FlowsDocument } from "@flowgate/flows";
export type { RuntimeState, RuntimeStatus } from "@flowgate/runtime";
export { FlowgateError, type Reason } from "@flowgate/flows/errors";
