import type { AuditRecord } from "../store/audit-store.ts";
import type { StoredToken } from "../store/token-store.ts";
import { createAccounts } from "./accounts.ts";
import type { AdminAuth } from "./admin-auth.ts";
import type { Authenticator, AuthenticatorOptions } from "./authenticator.ts";
import { readOAuthClient } from "./oauth-client.ts";
import { createLogins } from "./logins.ts";
import { prepareNamedToken, userRequired } from "./named-token.ts";
import { createNewToken } from "./new-token.ts";
import { covers } from "./permissions.ts";
import type { Principal } from "./principal.ts";
import { sha256 } from "./sha256.ts";
import { tokenError } from "./token-error.ts";
import { parseTokenRequest } from "./token-request.ts";
import { invalidToken } from "./unauthorized.ts";
import type { IdentifyWorkload } from "./workload-authenticator.ts";

type TokenAuthenticatorOptions = Pick<AuthenticatorOptions, "tokens" | "uses" | "audit" | "permissions" | "limiter"> & {
  readonly now: () => number;
  readonly identify: IdentifyWorkload;
  readonly removeExpired: () => Promise<void>;
};

/** With adminAuth: callers authenticate by a token, or as workloads. */
export function createTokenAuthenticator(
  adminAuth: AdminAuth,
  { tokens, uses, audit, permissions, now, identify, limiter, removeExpired }: TokenAuthenticatorOptions,
): Pick<Authenticator, "issueToken" | "createToken" | "isValid" | "authenticate"> {
  const logins = createLogins(adminAuth.users, limiter);
  const accounts = createAccounts(adminAuth.users, now);
  const anonymous: Principal = { username: undefined, permissions: adminAuth.default?.permissions ?? [] };

  function toPrincipal(token: StoredToken | undefined): Principal {
    const principal = token && accounts.principalOf(token);
    if (token === undefined || principal === undefined) {
      throw invalidToken();
    }
    uses.record(token, now());
    return principal;
  }

  return {
    async issueToken(request, { origin, authorization, kind }) {
      const client = readOAuthClient(request.clientId, authorization);
      const requestedScope = parseTokenRequest(request, { client, clientIds: adminAuth.clientIds, permissions });
      const recordFailure = (detail: string, by?: string): void =>
        audit.record({ kind: "sign_in_failed", origin: { ...origin, by }, detail });
      const source = { address: origin.address ?? "", kind };
      const { username: by, ...user } = await logins.verify(request, source, recordFailure);
      const scope = requestedScope ?? user.permissions;
      if (!covers(user.permissions, scope, permissions)) {
        recordFailure("the scope exceeds the permissions of the user", by);
        throw tokenError("invalid_scope", "The scope exceeds the permissions of this user.");
      }
      await removeExpired();
      const { accessToken, token } = createNewToken(now(), {
        name: undefined,
        username: by,
        passwordFingerprint: sha256(user.password),
        clientId: client.id,
        scope: scope.join(" "),
        lifetimeSeconds: adminAuth.tokenLifetimeSeconds,
      });
      await tokens.insert(token, { kind: "sign_in", origin: { ...origin, by }, subject: token.id });
      return {
        accessToken,
        expiresIn: adminAuth.tokenLifetimeSeconds,
        tokenType: "Bearer",
        ...(requestedScope === undefined && { scope: token.scope }),
      };
    },

    async createToken(request, caller, origin) {
      const { username } = caller;
      const passwordFingerprint = username === undefined ? undefined : accounts.fingerprintOf(username);
      if (username === undefined || passwordFingerprint === undefined) {
        throw userRequired();
      }
      const { tokenLifetimeSeconds } = adminAuth;
      const { name, scope, lifetimeSeconds } = prepareNamedToken(request, caller, {
        permissions,
        tokenLifetimeSeconds,
      });
      const fields = { name, username, passwordFingerprint, clientId: "", scope: scope.join(" "), lifetimeSeconds };
      const created = createNewToken(now(), fields);
      const limits = { perUser: adminAuth.maxTokensPerUser, total: adminAuth.maxTokens, nowMs: now() };
      await tokens.insert(created.token, { kind: "token_created", origin, ...describeToken(created.token) }, limits);
      return created;
    },

    isValid: (token) => accounts.principalOf(token) !== undefined,

    authenticate(authorization, workload) {
      if (authorization === null) {
        return identify(workload) ?? anonymous;
      }
      // The form of issued tokens. The scheme is case-insensitive (RFC 9110, section 11.1).
      if (!/^bearer +[\w-]{43}$/i.test(authorization)) {
        throw invalidToken();
      }
      const stored = tokens.find(sha256(authorization.slice(-43)));
      return stored instanceof Promise ? stored.then(toPrincipal) : toPrincipal(stored);
    },
  };
}

function describeToken({ id, name, scope, expiresAtMs }: StoredToken): Pick<AuditRecord, "subject" | "detail"> {
  const expiry = new Date(expiresAtMs).toISOString();
  return { subject: id, detail: `${JSON.stringify(name)}, scope ${scope}, expires ${expiry}` };
}
