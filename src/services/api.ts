import type { DescService } from "@bufbuild/protobuf";
import type { ConnectRouter, ServiceImpl } from "@connectrpc/connect";
import { AuditService } from "../../gen/flowgate/v1/audit_pb.ts";
import { AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import { ContextService } from "../../gen/flowgate/v1/context_pb.ts";
import { EventsService } from "../../gen/flowgate/v1/events_pb.ts";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { ReplicasService } from "../../gen/flowgate/replicas/v1/replicas_pb.ts";
import { LibraryService } from "../../gen/flowgate/v1/library_pb.ts";
import { LogsService } from "../../gen/flowgate/v1/logs_pb.ts";
import { ModulesService } from "../../gen/flowgate/v1/modules_pb.ts";
import { ProposalsService } from "../../gen/flowgate/v1/proposals_pb.ts";
import { RevisionsService } from "../../gen/flowgate/v1/revisions_pb.ts";
import { RuntimeService } from "../../gen/flowgate/v1/runtime_pb.ts";
import { SettingsService } from "../../gen/flowgate/v1/settings_pb.ts";
import { TokensService } from "../../gen/flowgate/v1/tokens_pb.ts";
import { compileAccess, deployUnapproved, permissionsOf } from "../auth/permissions.ts";

const byName = {
  auth: AuthService,
  flows: FlowsService,
  revisions: RevisionsService,
  proposals: ProposalsService,
  runtime: RuntimeService,
  context: ContextService,
  modules: ModulesService,
  library: LibraryService,
  settings: SettingsService,
  tokens: TokensService,
  audit: AuditService,
  events: EventsService,
  logs: LogsService,
} as const;

export const services = Object.values(byName);

/** The access rules of these services, and of the service that replicas call. */
export const accessRules = compileAccess([...services, ReplicasService]);

/**
 * All permissions: of RPCs, `debug.read` for one kind of events, `metrics.read` for the metrics endpoint,
 * `library.read` for Node-RED's tools, and the permission to deploy without approval.
 */
export const permissions: ReadonlySet<string> = new Set([
  ...permissionsOf(accessRules),
  "debug.read",
  "metrics.read",
  "library.read",
  deployUnapproved,
]);

export type Implementations = {
  readonly [Name in keyof typeof byName]: ServiceImpl<(typeof byName)[Name]>;
} & {
  /** Absent: there can be no other replicas. */
  readonly replicas?: ServiceImpl<typeof ReplicasService> | undefined;
};

/** Returns a function that registers the services with Connect's router or the gateway's. */
export function createRoutes(implementations: Implementations): (router: ConnectRouter) => void {
  return (router) => {
    if (implementations.replicas !== undefined) {
      router.service(ReplicasService, implementations.replicas);
    }
    for (const name of Object.keys(byName) as (keyof typeof byName)[]) {
      router.service<DescService>(byName[name], implementations[name] as ServiceImpl<DescService>);
    }
  };
}
