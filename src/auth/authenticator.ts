import { hash, randomBytes } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { GetLoginResponseSchema } from "../../gen/flowgate/v1/auth_pb.ts";
import type { StoredToken } from "../store/store.ts";
import type { AdminAuth } from "./admin-auth.ts";
import { type Client, invalidClient, readClient } from "./client.ts";
import { createLimiter, type OnLockOut } from "./limiter.ts";
import { createLogins } from "./logins.ts";
import { covers, narrow, parseScope } from "./permissions.ts";
import { createIdentities, type IdentityRule } from "./identities.ts";
import type { Peer, Principal } from "./principal.ts";
import type { Tokens } from "./token-cache.ts";
import { tokenError } from "./token-error.ts";
import { invalidToken } from "./unauthorized.ts";

/** The parameters of IssueToken. */
export type TokenRequest = {
  /** Empty if the client sends it by HTTP Basic authentication. */
  readonly clientId: string;
  readonly grantType: string;
  /** Absent: all permissions of the user. */
  readonly scope?: string | undefined;
  readonly username: string;
  readonly password: string;
};

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
  readonly address: string;
  /** The Authorization header; null: there is none. */
  readonly authorization: string | null;
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
  /** The token is invalid once this resolves. Ignores an unknown token. */
  revokeToken(token: string): Promise<void>;
  /**
   * Returns the caller with this Authorization header; null: there is none. Throws or rejects with `invalid_token`, also
   * if a request without a token would be allowed. Without a token, the workload identity determines the caller, who is
   * anonymous if no rule matches. Returns a promise only if the token has to be looked up in the store.
   */
  authenticate(authorization: string | null, workload?: Peer["workload"]): Principal | Promise<Principal>;
}

const unrestricted: Principal = { username: undefined, permissions: ["*"] };
const withoutPermissions: Principal = { username: undefined, permissions: [] };
const cleanupIntervalMs = 60 * 60_000;
const parameters = [
  ["client_id", "clientId"],
  ["grant_type", "grantType"],
  ["scope", "scope"],
  ["username", "username"],
  ["password", "password"],
] as const;

type AuthenticatorOptions = {
  readonly adminAuth: AdminAuth | undefined;
  readonly tokens: Tokens;
  /** All known permissions. */
  readonly permissions: ReadonlySet<string>;
  /** The permissions of workloads. Absent: workloads are not identified. */
  readonly identities?: readonly IdentityRule[] | undefined;
  readonly now?: () => number;
  /** Called when a user or client is locked out after failed logins. */
  readonly onLockOut?: OnLockOut;
};

export function createAuthenticator({ adminAuth, ...options }: AuthenticatorOptions): Authenticator {
  const { tokens, identities } = options;
  const principalOf = createIdentities(identities ?? []);
  const identify: IdentifyWorkload = (workload) => {
    const id = workload?.();
    return id === undefined ? undefined : principalOf(id);
  };
  const revokeToken = async (token: string): Promise<void> => {
    if (token === "") {
      throw tokenError("invalid_request", "The parameter token is missing or empty.");
    }
    await tokens.remove(sha256(token));
  };
  return adminAuth === undefined
    ? { ...createWorkloadAuthenticator(identities !== undefined, identify), revokeToken }
    : { ...createTokenAuthenticator(adminAuth, options, identify), revokeToken };
}

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
  };
}

/** With adminAuth: callers authenticate by a token, or as workloads. */
function createTokenAuthenticator(
  adminAuth: AdminAuth,
  { tokens, permissions, now = Date.now, onLockOut }: Omit<AuthenticatorOptions, "adminAuth">,
  identify: IdentifyWorkload,
): Omit<Authenticator, "revokeToken"> {
  const logins = createLogins(adminAuth.users, createLimiter(now, onLockOut));
  const toPrincipal = createTokenVerifier(adminAuth, now);
  const anonymous: Principal = { username: undefined, permissions: adminAuth.default?.permissions ?? [] };
  let cleanedUpAtMs = Number.NEGATIVE_INFINITY;

  /** Expired tokens are already rejected; removing them occasionally, on logins, frees their space. */
  async function removeExpired(): Promise<void> {
    if (now() - cleanedUpAtMs >= cleanupIntervalMs) {
      cleanedUpAtMs = now();
      await tokens.removeExpired(cleanedUpAtMs);
    }
  }

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

    async issueToken(request, { address, authorization }) {
      const client = readClient(request.clientId, authorization);
      const requestedScope = parseTokenRequest(request, { client, clientIds: adminAuth.clientIds, permissions });
      const user = await logins.verify(request, address);
      const scope = requestedScope ?? user.permissions;
      if (!covers(user.permissions, scope, permissions)) {
        throw tokenError("invalid_scope", "The scope exceeds the permissions of this user.");
      }
      await removeExpired();
      const accessToken = randomBytes(32).toString("base64url");
      await tokens.insert({
        hash: sha256(accessToken),
        username: user.username,
        passwordFingerprint: sha256(user.password),
        clientId: client.id,
        scope: scope.join(" "),
        expiresAtMs: now() + adminAuth.tokenLifetimeSeconds * 1000,
      });
      return {
        accessToken,
        expiresIn: adminAuth.tokenLifetimeSeconds,
        tokenType: "Bearer",
        ...(requestedScope === undefined && { scope: scope.join(" ") }),
      };
    },

    authenticate(authorization, workload) {
      if (authorization === null) {
        return identify(workload) ?? anonymous;
      }
      // The form of issued tokens. The scheme is case-insensitive (RFC 9110, section 11.1).
      const token = /^bearer +([\w-]{43})$/i.exec(authorization)?.[1];
      if (token === undefined) {
        throw invalidToken();
      }
      const stored = tokens.find(sha256(token));
      return stored instanceof Promise ? stored.then(toPrincipal) : toPrincipal(stored);
    },
  };
}

/** Returns the principal of a stored token. Throws `invalid_token` if it is unknown, expired, or its user has changed. */
function createTokenVerifier(adminAuth: AdminAuth, now: () => number): (stored: StoredToken | undefined) => Principal {
  const accounts = new Map(
    adminAuth.users.map((user) => [user.username, { user, fingerprint: sha256(user.password) }]),
  );
  // Cacheable, because users are fixed by the configuration.
  const principals = new WeakMap<StoredToken, Principal>();
  return (stored) => {
    if (stored === undefined || stored.expiresAtMs <= now()) {
      throw invalidToken();
    }
    let principal = principals.get(stored);
    if (principal === undefined) {
      const account = accounts.get(stored.username);
      if (account === undefined || !account.fingerprint.equals(stored.passwordFingerprint)) {
        throw invalidToken();
      }
      const { username, permissions } = account.user;
      principal = { username, permissions: narrow(permissions, stored.scope.split(" ")) };
      principals.set(stored, principal);
    }
    return principal;
  };
}

/** Validates a request as far as possible without the user. Returns its scope; undefined: it has none. */
function parseTokenRequest(
  request: TokenRequest,
  {
    client,
    clientIds,
    permissions,
  }: {
    readonly client: Client;
    readonly clientIds: readonly string[];
    readonly permissions: ReadonlySet<string>;
  },
): readonly string[] | undefined {
  const sent = { ...request, clientId: client.id };
  const missing = parameters.find(([, key]) => sent[key] === "");
  if (missing !== undefined) {
    throw tokenError("invalid_request", `The parameter ${missing[0]} is missing or empty.`);
  }
  if (!clientIds.includes(client.id)) {
    throw invalidClient("This client_id is not configured.", client.usesBasic);
  }
  if (request.grantType !== "password") {
    throw tokenError("unsupported_grant_type", "The only grant_type is password.");
  }
  if (request.scope === undefined) {
    return undefined;
  }
  const scope = parseScope(request.scope, permissions);
  if (scope === undefined) {
    const known = ["*", "read", ...permissions].join(", ");
    throw tokenError("invalid_scope", `The scope must be a space-separated list of: ${known}.`);
  }
  return scope;
}

function sha256(text: string): Buffer {
  return hash("sha256", text, "buffer");
}
