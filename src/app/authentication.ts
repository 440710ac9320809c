import type { DescService } from "@bufbuild/protobuf";
import { Health } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { ServerReflection } from "@flowgate/gateway/gen/grpc/reflection/v1/reflection_pb.js";
import { ServerReflection as ServerReflectionAlpha } from "@flowgate/gateway/gen/grpc/reflection/v1alpha/reflection_pb.js";
import type { AdminAuth, SignInSettings } from "../auth/accounts.ts";
import { type AuditRecorder, openAuditRecorder } from "../auth/audit-recorder.ts";
import { Authenticator } from "../auth/authenticator.ts";
import type { EditorSignIn } from "../auth/editor-sign-in.ts";
import type { Issuers } from "../auth/issuers.ts";
import { createLimiter } from "../auth/limiter.ts";
import type { AccessRule } from "../auth/permissions.ts";
import { openTokenCache } from "../auth/token-cache.ts";
import { openTokenUses } from "../auth/token-uses.ts";
import { sessionSeconds } from "../options/access.ts";
import type { Options } from "../options/parse.ts";
import { readRoles } from "../options/permissions.ts";
import type { ServerOptions } from "../server/server-options.ts";
import type { BrowserSafetyOptions } from "../server/pipeline/guards/browser-safety.ts";
import { permissions } from "../services/api.ts";
import { openAuditRetention } from "../store/audit-store.ts";
import { readKeys } from "../store/key-files.ts";
import type { Foundation } from "./foundation.ts";
import { type UserReload, type UserReloadOptions, createUserReload } from "./reload-users.ts";

type AuthenticationOptions = Pick<Foundation, "options" | "log" | "store" | "ports"> & {
  readonly onUsersReload: UserReloadOptions["onReload"];
};

export type Authentication = {
  readonly audit: AuditRecorder;
  readonly authenticator: Authenticator;
  /** undefined: browsers have no sessions. */
  readonly signIn: ServerOptions["signIn"];
  /** undefined: people do not sign in at Node-RED's editor. */
  readonly editorSignIn: EditorSignIn | undefined;
  readonly users: UserReload;
};

/** Opens the authentication, and the recording of its events. Its resources are added to the stack. */
export async function openAuthentication(
  { options, log, store, ports, onUsersReload }: AuthenticationOptions,
  stack: AsyncDisposableStack,
): Promise<Authentication> {
  stack.use(openAuditRetention({ store: store.audit, retentionDays: options.audit.retentionDays, log }));
  const audit = stack.use(openAuditRecorder({ store: store.audit, log }));
  const tokens = stack.use(openTokenCache(store.tokens));
  let issuers: Issuers | undefined;
  stack.defer(() => issuers?.[Symbol.dispose]());
  const { adminAuth, nodeRed } = options;
  const settings = sessionSettings(options);
  const shared = { editorUrl: nodeRed.url, keys: store.keys, tokens, log };
  const browsers = settings && (await import("./sign-in.ts")).openSessions({ settings, ...shared });
  /** Loads what authenticates JWTs when the first issuer is configured. */
  const openIssuers = async (adminAuth: AdminAuth | undefined): Promise<Issuers | undefined> => {
    if (adminAuth !== undefined && (issuers !== undefined || adminAuth.issuers.length > 0)) {
      issuers ??= new (await import("../auth/issuers.ts")).Issuers({ log });
      const replaceProviders = await browsers?.sessions.prepare(adminAuth.issuers, issuers);
      await issuers.replace(adminAuth.issuers);
      replaceProviders?.();
    }
    return issuers;
  };
  const limiter = createLimiter(store.logins, (locked, client, kind) => {
    log.info({ locked, client, kind }, "too many failed logins: this user or client is locked out temporarily");
  });
  const authenticator = new Authenticator({
    adminAuth,
    issuers: await openIssuers(adminAuth),
    sessions: browsers?.sessions,
    tokens,
    uses: stack.use(openTokenUses(store.tokens, log)),
    audit,
    permissions,
    roles: readRoles(options.roles),
    limiter,
    identities: options.identity?.rules,
  });
  const replace: UserReloadOptions["replace"] = async (adminAuth, roles) => {
    ports.protectIssuers(adminAuth, options.runtime);
    authenticator.replaceAdminAuth(adminAuth, { issuers: await openIssuers(adminAuth), roles: readRoles(roles) });
  };
  const replaceSecrets: UserReloadOptions["replaceSecrets"] = async (secrets) =>
    store.keys.replace(await readKeys({ ...secrets, dataDir: options.dataDir }));
  return {
    audit,
    authenticator,
    signIn: browsers?.serve({ authenticator, limiter, audit }),
    editorSignIn: browsers?.editor,
    users: createUserReload({ options, replace, replaceSecrets, audit, onReload: onUsersReload, log }),
  };
}

/** Returns the settings of browser sessions; undefined if there are none. Users can be added while the service runs. */
function sessionSettings({ adminAuth, console, docs }: Options): SignInSettings | undefined {
  const hasPages = console || docs;
  return adminAuth?.signIn ?? (hasPages && adminAuth !== undefined ? { lifetimeSeconds: sessionSeconds } : undefined);
}

/**
 * Returns the protection against foreign web pages, needed for calls allowed without a token: from anonymous clients,
 * and with a client certificate, which browsers add automatically.
 */
export function browserSafety(
  { adminAuth, identity, tls, host, hosts }: Options,
  current: () => AdminAuth | undefined,
): BrowserSafetyOptions {
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
