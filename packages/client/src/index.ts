// The services, and an interceptor that retries calls, to be used with a Connect transport
export { AuditKind, AuditService } from "../gen/flowgate/v1/audit_pb.ts";
export { AuthService } from "../gen/flowgate/v1/auth_pb.ts";
export {
  DeploymentErrorReason,
  DeploymentErrorSchema,
  DeploymentOutcome,
  DeploymentType,
  FlowsService,
  OnFailure,
  RevisionCause,
} from "../gen/flowgate/v1/flows_pb.ts";
export { RevisionsService, RevisionView } from "../gen/flowgate/v1/revisions_pb.ts";
export { RuntimeService } from "../gen/flowgate/v1/runtime_pb.ts";
export { GetSettingsResponseSchema, SettingsService } from "../gen/flowgate/v1/settings_pb.ts";
export { TokensService } from "../gen/flowgate/v1/tokens_pb.ts";
export { retryInterceptor, type RetryOptions } from "./retry.ts";
