import type { DescService } from "@bufbuild/protobuf";
import { Health } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { ServerReflection } from "@flowgate/gateway/gen/grpc/reflection/v1/reflection_pb.js";
import { ServerReflection as ServerReflectionAlpha } from "@flowgate/gateway/gen/grpc/reflection/v1alpha/reflection_pb.js";
import type { Logger } from "pino";
import type { AdminAuth } from "../auth/accounts.ts";
import { type AuditRecorder, openAuditRecorder } from "../auth/audit-recorder.ts";
import { Authenticator } from "../auth/authenticator.ts";
import { createLimiter } from "../auth/limiter.ts";
import type { AccessRule } from "../auth/permissions.ts";
import { openTokenCache } from "../auth/token-cache.ts";
import { openTokenUses } from "../auth/token-uses.ts";
import type { Options } from "../options/parse.ts";
import type { ServerOptions } from "../server/open-server.ts";
import { permissions } from "../services/api.ts";
import { openAuditRetention } from "../store/audit-store.ts";
import type { Store } from "../store/store.ts";
import { type UserReload, type UserReloadOptions, createUserReload } from "./reload-users.ts";

export type AuthenticationOptions = {
  readonly options: Options;
  readonly log: Logger;
  readonly store: Store;
  /** Called when flows guess passwords. */
  readonly onRuntimeAbuse: (reason: string) => void;
  readonly onUsersReload: UserReloadOptions["onReload"];
};

export type Authentication = {
  readonly audit: AuditRecorder;
  readonly authenticator: Authenticator;
  readonly users: UserReload;
};

/** Opens the authentication, and the recording of its events. Its resources are added to the stack. */
export function openAuthentication(
  { options, log, store, onRuntimeAbuse, onUsersReload }: AuthenticationOptions,
  stack: AsyncDisposableStack,
): Authentication {
  stack.use(openAuditRetention({ store: store.audit, retentionDays: options.audit.retentionDays, log }));
  const audit = stack.use(openAuditRecorder({ store: store.audit, log }));
  const authenticator = new Authenticator({
    adminAuth: options.adminAuth,
    tokens: stack.use(openTokenCache(store.tokens)),
    uses: stack.use(openTokenUses(store.tokens, log)),
    audit,
    permissions,
    limiter: createLimiter(store.logins, (locked, client, kind) => {
      log.info({ locked, client, kind }, "too many failed logins: this user or client is locked out temporarily");
      if (kind === "runtime") {
        onRuntimeAbuse("flows have tried too many passwords");
      }
    }),
    identities: options.identity?.rules,
  });
  const replace = (adminAuth: AdminAuth): void => authenticator.replaceAdminAuth(adminAuth);
  return { audit, authenticator, users: createUserReload({ options, replace, audit, onReload: onUsersReload, log }) };
}

/**
 * Protection against foreign web pages is needed for calls that are allowed without a token: those of anonymous clients,
 * and those with a client certificate, which browsers add automatically.
 */
export function browserSafety(
  { adminAuth, identity, tls, host, hosts }: Options,
  current: () => AdminAuth | undefined,
): ServerOptions["browserSafety"] {
  const isOpen = (adminAuth ?? identity) === undefined;
  return {
    checksTokens: !isOpen,
    hosts: tls === undefined ? [host, ...hosts] : undefined,
    exposure() {
      if (isOpen || (current()?.default?.permissions ?? []).length > 0) {
        return "anonymous";
      }
      return identity === undefined ? "none" : "workloads";
    },
  };
}

/** Access rules of the third-party services. Health is public, since probes have no token. */
export function accessToServer(reflection: Options["reflection"]): ReadonlyMap<DescService, AccessRule> {
  const reflectionRule: AccessRule = { kind: reflection === "open" ? "public" : "authenticated" };
  return new Map<DescService, AccessRule>([
    [Health, { kind: "public" }],
    [ServerReflection, reflectionRule],
    [ServerReflectionAlpha, reflectionRule],
  ]);
}
