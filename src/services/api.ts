import type { ConnectRouter, ServiceImpl } from "@connectrpc/connect";
import { AuditService } from "../../gen/flowgate/v1/audit_pb.ts";
import { AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { RevisionsService } from "../../gen/flowgate/v1/revisions_pb.ts";
import { RuntimeService } from "../../gen/flowgate/v1/runtime_pb.ts";
import { SettingsService } from "../../gen/flowgate/v1/settings_pb.ts";
import { TokensService } from "../../gen/flowgate/v1/tokens_pb.ts";
import { compileAccess, permissionsOf } from "../auth/permissions.ts";

/** All services of the API. */
export const services = [
  AuthService,
  FlowsService,
  RevisionsService,
  RuntimeService,
  SettingsService,
  TokensService,
  AuditService,
] as const;

/** Who may call the methods of these services. */
export const accessRules = compileAccess(services);

/** All permissions: those that RPCs require, and `metrics.read` for the metrics endpoint. */
export const permissions: ReadonlySet<string> = new Set([...permissionsOf(accessRules), "metrics.read"]);

export type Implementations = {
  readonly auth: ServiceImpl<typeof AuthService>;
  readonly flows: ServiceImpl<typeof FlowsService>;
  readonly revisions: ServiceImpl<typeof RevisionsService>;
  readonly runtime: ServiceImpl<typeof RuntimeService>;
  readonly settings: ServiceImpl<typeof SettingsService>;
  readonly tokens: ServiceImpl<typeof TokensService>;
  readonly audit: ServiceImpl<typeof AuditService>;
};

/** Returns a function that registers the services with Connect's router or the gateway's. */
export function createRoutes({
  auth,
  flows,
  revisions,
  runtime,
  settings,
  tokens,
  audit,
}: Implementations): (router: ConnectRouter) => void {
  return (router) => {
    router
      .service(AuthService, auth)
      .service(FlowsService, flows)
      .service(RevisionsService, revisions)
      .service(RuntimeService, runtime)
      .service(SettingsService, settings)
      .service(TokensService, tokens)
      .service(AuditService, audit);
  };
}
