import type { MessageInitShape } from "@bufbuild/protobuf";
import type { GetLoginResponseSchema } from "../../gen/flowgate/v1/auth_pb.ts";
import type { AuditRecord } from "../store/audit-store.ts";
import type { Origin } from "../store/origin.ts";
import type { StoredToken } from "../store/token-store.ts";
import { type AdminAuth, type IdentityRule, createAccounts, createIdentities } from "./accounts.ts";
import type { AuditRecorder } from "./audit-recorder.ts";
import type { ClientKind, Peer, Principal } from "./caller.ts";
import { invalidToken, tokenError } from "./errors.ts";
import type { Limiter } from "./limiter.ts";
import { createLogins } from "./logins.ts";
import { covers } from "./permissions.ts";
import type { Tokens } from "./token-cache.ts";
import { type TokenRequest, parseTokenRequest, readOAuthClient } from "./token-request.ts";
import type { TokenUses } from "./token-uses.ts";
import {
  type NamedTokenRequest,
  type NewToken,
  authDisabled,
  createNewToken,
  prepareNamedToken,
  revocation,
  sha256,
  userRequired,
} from "./tokens.ts";

type IssuedToken = {
  readonly accessToken: string;
  /** Lifetime in seconds. */
  readonly expiresIn: number;
  readonly tokenType: "Bearer";
  /** Present if the request had none. */
  readonly scope?: string;
};

/** The client that requests a token. */
type TokenPeer = {
  /** Failed attempts are counted per address. */
  readonly origin: Origin;
  /** The Authorization header; null: there is none. */
  readonly authorization: string | null;
  /** Where the client connects from. Absent: over TCP. */
  readonly kind?: ClientKind | undefined;
};

export interface Authenticator {
  /** Whether callers must authenticate: adminAuth is set, or workloads are identified. */
  readonly required: boolean;
  /** Whether adminAuth is set, so that callers can get a token. */
  readonly issuesTokens: boolean;
  /** The prompts that a client must show to request a token; empty if no token is needed. */
  login(): MessageInitShape<typeof GetLoginResponseSchema>;
  /** Rejects with the errors of RFC 6749. */
  issueToken(request: TokenRequest, peer: TokenPeer): Promise<IssuedToken>;
  /** Creates a named token of the caller, which permits at most what the caller is permitted. */
  createToken(request: NamedTokenRequest, caller: Principal, origin: Origin): Promise<NewToken>;
  /** The token is invalid once this resolves. Ignores an unknown token. */
  revokeToken(token: string, origin: Origin): Promise<void>;
  /** Whether a stored token is valid: not expired, of an existing user whose password hash has not changed. */
  isValid(token: StoredToken): boolean;
  /**
   * Returns the caller with this Authorization header; null: there is none. Throws or rejects with `invalid_token`, also
   * if a request without a token would be allowed. Without a token, the workload identity determines the caller, who is
   * anonymous if no rule matches. Returns a promise only if the token has to be looked up in the store.
   */
  authenticate(authorization: string | null, workload?: Peer["workload"]): Principal | Promise<Principal>;
  /**
   * Replaces users and defaults for all later calls. Failed logins stay counted. Throws a TypeError if adminAuth was not set,
   * because the server does not expect tokens then.
   */
  replaceAdminAuth(adminAuth: AdminAuth): void;
}

export type AuthenticatorOptions = {
  readonly adminAuth: AdminAuth | undefined;
  readonly tokens: Tokens;
  readonly uses: TokenUses;
  readonly audit: AuditRecorder;
  /** All known permissions. */
  readonly permissions: ReadonlySet<string>;
  /** The permissions of workloads. Absent: workloads are not identified. */
  readonly identities?: readonly IdentityRule[] | undefined;
  readonly limiter: Limiter;
  readonly now?: () => number;
};

const cleanupIntervalMs = 60 * 60_000;

/**
 * Creates the authenticator of the configured users and workload identities. Without `adminAuth` it issues no tokens. `replaceAdminAuth`
 * keeps tokens of unchanged users valid.
 */
export function createAuthenticator({ adminAuth, ...options }: AuthenticatorOptions): Authenticator {
  const { tokens, identities, now = Date.now } = options;
  const principalOf = createIdentities(identities ?? []);
  const identify: IdentifyWorkload = (workload) => {
    const id = workload?.();
    return id === undefined ? undefined : principalOf(id);
  };
  const revokeToken: Authenticator["revokeToken"] = async (token, origin) => {
    if (token === "") {
      throw tokenError("invalid_request", "The parameter token is missing or empty.");
    }
    const hash = sha256(token);
    const stored = await tokens.find(hash);
    if (stored !== undefined) {
      await tokens.remove({ hash }, revocation(stored, origin));
    }
  };
  if (adminAuth === undefined) {
    return { ...createWorkloadAuthenticator(identities !== undefined, identify), revokeToken };
  }
  const shared = { ...options, now, identify, removeExpired: createCleanup(tokens, now) };
  let current = createTokenAuthenticator(adminAuth, shared);
  return {
    required: true,
    issuesTokens: true,
    login: () => ({
      type: "credentials",
      prompts: [
        { id: "username", type: "text", label: "Username" },
        { id: "password", type: "password", label: "Password" },
      ],
    }),
    issueToken: (request, peer) => current.issueToken(request, peer),
    createToken: (request, caller, origin) => current.createToken(request, caller, origin),
    revokeToken,
    isValid: (token) => current.isValid(token),
    authenticate: (authorization, workload) => current.authenticate(authorization, workload),
    replaceAdminAuth: (next) => void (current = createTokenAuthenticator(next, shared)),
  };
}

/** Expired tokens are already rejected; removing them occasionally, on logins, frees their space. */
function createCleanup(tokens: Tokens, now: () => number): () => Promise<void> {
  let cleanedUpAtMs = Number.NEGATIVE_INFINITY;
  return async () => {
    if (now() - cleanedUpAtMs >= cleanupIntervalMs) {
      cleanedUpAtMs = now();
      await tokens.removeExpired(cleanedUpAtMs);
    }
  };
}

const unrestricted: Principal = { username: undefined, permissions: ["*"] };
const withoutPermissions: Principal = { username: undefined, permissions: [] };

/** Returns the principal of a workload; undefined: there is no identity, or no rule for it. */
type IdentifyWorkload = (workload: Peer["workload"]) => Principal | undefined;

/** Without adminAuth: callers authenticate as workloads if `required` is set, otherwise not at all. */
function createWorkloadAuthenticator(
  required: boolean,
  identify: IdentifyWorkload,
): Omit<Authenticator, "revokeToken"> {
  return {
    required,
    issuesTokens: false,
    login: () => ({}),
    async issueToken() {
      throw tokenError("auth_disabled", "This service needs no token: its adminAuth is not set.");
    },
    async createToken() {
      throw authDisabled();
    },
    isValid: () => false,
    authenticate(authorization, workload) {
      if (!required) {
        return unrestricted;
      }
      if (authorization !== null) {
        throw invalidToken(
          "This service issues no access tokens: omit Authorization, and call as a workload with a SPIFFE ID.",
        );
      }
      return identify(workload) ?? withoutPermissions;
    },
    replaceAdminAuth() {
      throw new TypeError("adminAuth is not set, and can't be added to a running service");
    },
  };
}

type TokenAuthenticatorOptions = Pick<AuthenticatorOptions, "tokens" | "uses" | "audit" | "permissions" | "limiter"> & {
  readonly now: () => number;
  readonly identify: IdentifyWorkload;
  readonly removeExpired: () => Promise<void>;
};

/** With adminAuth: callers authenticate by a token, or as workloads. */
function createTokenAuthenticator(
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
