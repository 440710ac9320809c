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

/** What IssueToken is asked with, each a plain string. */
export type TokenRequest = {
  /** Empty where the client sends it by HTTP Basic authentication. */
  readonly clientId: string;
  readonly grantType: string;
  /** Absent: all that the user may. */
  readonly scope?: string | undefined;
  readonly username: string;
  readonly password: string;
};

type IssuedToken = {
  readonly accessToken: string;
  /** In seconds. */
  readonly expiresIn: number;
  readonly tokenType: "Bearer";
  /** Present where the request had none. */
  readonly scope?: string;
};

/** Who asks for a token. */
type TokenPeer = {
  /** Failed attempts are counted by it. */
  readonly address: string;
  /** The Authorization header; null where none was sent. */
  readonly authorization: string | null;
};

export interface Authenticator {
  /** Whether callers have to say who they are: there is an adminAuth, or workloads are told apart. */
  readonly required: boolean;
  /** Whether there is an adminAuth, so that callers can have a token. */
  readonly issuesTokens: boolean;
  /** What a client must collect before it asks for a token; empty where it needs none. */
  login(): MessageInitShape<typeof GetLoginResponseSchema>;
  /** Rejects with the errors of RFC 6749. */
  issueToken(request: TokenRequest, peer: TokenPeer): Promise<IssuedToken>;
  /** The token is of no use once this resolves. One that is unknown is no error. */
  revokeToken(token: string): Promise<void>;
  /**
   * Who sends this Authorization header; null where none was sent. Throws or rejects with
   * `invalid_token`, also where a request without any token would do. Without a token, and only then, the
   * workload's identity decides; one that no rule knows is no one in particular. A promise only where a token has to be
   * looked up in storage.
   */
  authenticate(authorization: string | null, workload?: Peer["workload"]): Principal | Promise<Principal>;
}

const everyone: Principal = { username: undefined, permissions: ["*"] };
const nobody: Principal = { username: undefined, permissions: [] };
const sweepEveryMs = 60 * 60_000;
const parameters = [
  ["client_id", "clientId"],
  ["grant_type", "grantType"],
  ["scope", "scope"],
  ["username", "username"],
  ["password", "password"],
] as const;

/** `permissions` are the known ones, by name. */
export function createAuthenticator(options: {
  adminAuth: AdminAuth | undefined;
  tokens: Tokens;
  permissions: ReadonlySet<string>;
  /** What workloads may do. Absent: they are not told apart. */
  identities?: readonly IdentityRule[] | undefined;
  now?: () => number;
  /** Hears of each failed login that was the last one for a while. */
  onLockOut?: OnLockOut;
}): Authenticator {
  const { adminAuth, tokens, permissions, identities, now = Date.now, onLockOut } = options;
  const principalOf = createIdentities(identities ?? []);
  const withoutToken = (workload: Peer["workload"], anonymous: Principal): Principal => {
    const id = workload?.();
    return (id === undefined ? undefined : principalOf(id)) ?? anonymous;
  };
  const revokeToken = async (token: string): Promise<void> => {
    if (token === "") {
      throw tokenError("invalid_request", "The parameter token is missing or empty.");
    }
    await tokens.remove(sha256(token));
  };

  if (adminAuth === undefined) {
    const required = identities !== undefined;
    return {
      required,
      issuesTokens: false,
      login: () => ({}),
      async issueToken() {
        throw tokenError("auth_disabled", "This service needs no token: its adminAuth is not set.");
      },
      revokeToken,
      authenticate(authorization, workload) {
        if (!required) {
          return everyone;
        }
        if (authorization !== null) {
          throw invalidToken(
            "This service issues no access tokens: leave Authorization out, and call as a workload with a SPIFFE ID.",
          );
        }
        return withoutToken(workload, nobody);
      },
    };
  }

  const accounts = new Map(
    adminAuth.users.map((user) => [user.username, { user, fingerprint: sha256(user.password) }]),
  );
  const logins = createLogins(adminAuth.users, createLimiter(now, onLockOut));
  const anonymous: Principal = { username: undefined, permissions: adminAuth.default?.permissions ?? [] };
  let sweptAtMs = Number.NEGATIVE_INFINITY;

  /** Expired tokens do no harm but take room: it is enough that they go with the next logins. */
  async function sweep(): Promise<void> {
    if (now() - sweptAtMs >= sweepEveryMs) {
      sweptAtMs = now();
      await tokens.removeExpired(sweptAtMs);
    }
  }

  const principals = new WeakMap<StoredToken, Principal>();

  function toPrincipal(stored: StoredToken | undefined): Principal {
    if (stored === undefined || stored.expiresAtMs <= now()) {
      throw invalidToken();
    }
    // Users are those of the configuration, so that a token that was looked up once stands for the same.
    let principal = principals.get(stored);
    if (principal === undefined) {
      const account = accounts.get(stored.username);
      if (account === undefined || !account.fingerprint.equals(stored.passwordFingerprint)) {
        throw invalidToken();
      }
      const { username, permissions: granted } = account.user;
      principal = { username, permissions: narrow(granted, stored.scope.split(" ")) };
      principals.set(stored, principal);
    }
    return principal;
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
      const asked = parseTokenRequest(request, { client, clientIds: adminAuth.clientIds, permissions });
      const user = await logins.verify(request, address);
      const scope = asked ?? user.permissions;
      if (!covers(user.permissions, scope, permissions)) {
        throw tokenError("invalid_scope", "The scope is beyond what this user is permitted.");
      }
      await sweep();
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
        ...(asked === undefined && { scope: scope.join(" ") }),
      };
    },

    revokeToken,

    authenticate(authorization, workload) {
      if (authorization === null) {
        return withoutToken(workload, anonymous);
      }
      // As issued above; the scheme is case-insensitive (RFC 9110, section 11.1).
      const token = /^bearer +([\w-]{43})$/i.exec(authorization)?.[1];
      if (token === undefined) {
        throw invalidToken();
      }
      const stored = tokens.find(sha256(token));
      return stored instanceof Promise ? stored.then(toPrincipal) : toPrincipal(stored);
    },
  };
}

/** Checks what can be checked without the user. Returns the scope, undefined where the request has none. */
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
    throw invalidClient("This client_id is not one of the configured.", client.usesBasic);
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
