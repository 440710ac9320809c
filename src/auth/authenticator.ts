import type { MessageInitShape } from "@bufbuild/protobuf";
import type { GetLoginResponseSchema } from "../../gen/flowgate/v1/auth_pb.ts";
import type { Origin } from "../store/audit-store.ts";
import type { StoredToken } from "../store/token-store.ts";
import { createListeners } from "@flowgate/base/listeners";
import { Accounts, type AdminAuth, type IdentityRule, type User, createIdentities } from "./accounts.ts";
import { type Audience, audienceOf, toolClientIds, toolPermissions } from "./audiences.ts";
import type { AuditRecorder } from "./audit-recorder.ts";
import type { Peer, Principal } from "./caller.ts";
import { endedSession, invalidToken, tokenError } from "./errors.ts";
import type { Limiter } from "./limiter.ts";
import { type VerifyLogin, createLoginCheck, passwordLogin } from "./logins.ts";
import type { Issuers } from "./issuers.ts";
import { builtInRoles, covers, defaultScope, type KnownNames, narrow, type Roles } from "./permissions.ts";
import type { Sessions } from "./sessions.ts";
import type { Tokens } from "./token-cache.ts";
import {
  type IssuedToken,
  type TokenPeer,
  type TokenRequest,
  parseTokenRequest,
  readOAuthClient,
} from "./token-request.ts";
import type { TokenUses } from "./token-uses.ts";
import {
  type NamedTokenRequest,
  type NewToken,
  authDisabled,
  createNewToken,
  creation,
  prepareNamedToken,
  revocation,
  sha256,
  userRequired,
} from "./tokens.ts";

export type AuthenticatorOptions = {
  readonly adminAuth: AdminAuth | undefined;
  readonly tokens: Tokens;
  readonly uses: TokenUses;
  readonly audit: AuditRecorder;
  readonly permissions: ReadonlySet<string>;
  /** Defaults to the built-in ones. */
  readonly roles?: Roles | undefined;
  readonly issuers?: JwtAuthenticator | undefined;
  readonly sessions?: Pick<Sessions, "principalOf" | "isValid"> | undefined;
  readonly identities?: readonly IdentityRule[] | undefined;
  readonly limiter: Limiter;
  readonly now?: () => number;
};

type JwtAuthenticator = Pick<Issuers, "authenticate">;

const unrestricted: Principal = { username: undefined, permissions: ["*"] };
const withoutPermissions: Principal = { username: undefined, permissions: [] };

const cleanupIntervalMs = 60 * 60_000;

/**
 * Authenticates the configured users by tokens, callers by JWTs of the configured issuers, and workloads by their identity. Without
 * `adminAuth` it issues no tokens: callers are workloads if they are identified, otherwise anyone.
 */
export class Authenticator {
  /** True if callers must authenticate: adminAuth is set, or workloads are identified. */
  readonly required: boolean;
  /** True if adminAuth is set, so that callers can have a token. */
  readonly acceptsTokens: boolean;
  readonly #options: AuthenticatorOptions;
  readonly #now: () => number;
  readonly #findWorkload: (id: string) => Principal | undefined;
  readonly #replacements = createListeners<void>();
  #users: Users | undefined;
  #cleanedUpAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: AuthenticatorOptions) {
    const { adminAuth, identities, now = Date.now } = options;
    this.required = (adminAuth ?? identities) !== undefined;
    this.acceptsTokens = adminAuth !== undefined;
    this.#options = options;
    this.#now = now;
    this.#findWorkload = createIdentities(identities ?? []);
    const { issuers, roles } = options;
    this.#users = adminAuth && this.#createUsers({ adminAuth, issuers, roles });
  }

  get issuesTokens(): boolean {
    return this.#users?.verifyLogin !== undefined;
  }

  get storesTokens(): boolean {
    return this.issuesTokens || this.#options.sessions !== undefined;
  }

  /** The roles in force; undefined if authentication is off. The same object until the roles change. */
  get roles(): Roles | undefined {
    return this.required ? (this.#users?.known.roles ?? this.#options.roles ?? builtInRoles) : undefined;
  }

  /** The prompts that a client must show to request a token; empty if no token is needed. */
  login(): MessageInitShape<typeof GetLoginResponseSchema> {
    return this.issuesTokens ? passwordLogin : {};
  }

  /** Rejects with the errors of RFC 6749. */
  async issueToken(
    request: TokenRequest,
    { origin, authorization, kind, audience = "api" }: TokenPeer,
  ): Promise<IssuedToken> {
    if (this.#users === undefined) {
      throw tokenError("auth_disabled", "This service needs no token: its adminAuth is not set.");
    }
    const { adminAuth, known } = this.#users;
    if (!this.issuesTokens) {
      throw tokenError("auth_disabled", "This service issues no tokens: its adminAuth has no users.");
    }
    const client = readOAuthClient(request.clientId, authorization);
    const clientIds = audience === "api" ? adminAuth.clientIds : toolClientIds;
    const requestedScope = parseTokenRequest(request, { client, clientIds, known });
    const { username: by, ...user } = await this.verifyLogin(request, { origin, kind });
    const wanted = requestedScope ?? defaultScope(user.permissions);
    if (!covers(user.permissions, wanted, known.permissions)) {
      this.#recordFailure(origin, "the scope exceeds the permissions of the user", by);
      throw tokenError("invalid_scope", "The scope exceeds the permissions of this user.");
    }
    const scope = audience === "api" ? wanted : narrow(wanted, toolPermissions);
    if (scope.length === 0) {
      this.#recordFailure(origin, "the user has no permission that tools can have", by);
      throw tokenError("invalid_scope", "This user has no permission that Node-RED's tools can use.");
    }
    const { accessToken, token } = createNewToken(this.#now(), {
      name: undefined,
      username: by,
      passwordFingerprint: sha256(user.password),
      clientId: client.id,
      scope: scope.join(" "),
      lifetimeSeconds: adminAuth.tokenLifetimeSeconds,
    });
    await this.insertLogin(token, origin);
    return {
      accessToken,
      expiresIn: adminAuth.tokenLifetimeSeconds,
      tokenType: "Bearer",
      ...(requestedScope === undefined && { scope: token.scope }),
    };
  }

  /** Resolves with the user with this name and password, or rejects with an error of RFC 6749. Failures are recorded. */
  async verifyLogin(
    login: Pick<TokenRequest, "username" | "password">,
    { origin, kind }: Pick<TokenPeer, "origin" | "kind">,
  ): Promise<User> {
    const verify = this.#users?.verifyLogin;
    if (verify === undefined) {
      throw tokenError("auth_disabled", "This service has no users with passwords.");
    }
    const source = { address: origin.address ?? "", kind };
    return verify(login, source, (detail, by) => this.#recordFailure(origin, detail, by));
  }

  /** Stores the token or session of a login. */
  async insertLogin(token: StoredToken, origin: Origin): Promise<void> {
    await this.#removeExpired();
    const detail =
      token.session && (audienceOf(token) === "tools" ? "a session of Node-RED's editor" : "a session of a browser");
    const entry = { kind: "sign_in", origin: { ...origin, by: token.username }, subject: token.id, detail } as const;
    await this.#options.tokens.insert(token, entry);
  }

  /** Creates a named token of the caller, with at most the caller's permissions. */
  async createToken(request: NamedTokenRequest, caller: Principal, origin: Origin): Promise<NewToken> {
    if (this.#users === undefined) {
      throw authDisabled();
    }
    const { adminAuth, accounts, known } = this.#users;
    const { tokens } = this.#options;
    const { username } = caller;
    const passwordFingerprint = username === undefined ? undefined : accounts.fingerprintOf(username);
    if (username === undefined || passwordFingerprint === undefined) {
      throw userRequired();
    }
    const { name, scope, lifetimeSeconds } = prepareNamedToken(request, caller, known, adminAuth.tokenLifetimeSeconds);
    const fields = { name, username, passwordFingerprint, clientId: "", scope: scope.join(" "), lifetimeSeconds };
    const created = createNewToken(this.#now(), fields);
    const limits = { perUser: adminAuth.maxTokensPerUser, total: adminAuth.maxTokens, nowMs: this.#now() };
    await tokens.insert(created.token, creation(created.token, origin), limits);
    return created;
  }

  /** The token is invalid once this resolves. Ignores an unknown token. */
  async revokeToken(token: string, origin: Origin): Promise<void> {
    const { tokens } = this.#options;
    if (token === "") {
      throw tokenError("invalid_request", "The parameter token is missing or empty.");
    }
    const hash = sha256(token);
    const stored = await tokens.find(hash);
    if (stored !== undefined) {
      await tokens.remove({ hash }, revocation(stored, origin));
    }
  }

  /** True if a stored token is valid: not expired, of an existing user whose password hash has not changed. */
  isValid(token: StoredToken): boolean {
    const { sessions } = this.#options;
    return this.#users?.accounts.principalOf(token) !== undefined || sessions?.isValid(token) === true;
  }

  /**
   * Returns the caller with this Authorization header; null: there is none. Throws or rejects with `invalid_token`, also
   * if a request without a token would be allowed. Without a token, the session determines the caller, and without one the workload
   * identity; the caller is anonymous if no rule matches it. Returns a promise only if the token has to be looked up in the store, or
   * the claims of a session have to be renewed. A token is valid for its own audience only, JWTs for the API only.
   */
  authenticate(
    authorization: string | null,
    workload?: Peer["workload"],
    audience: Audience = "api",
    session?: string,
  ): Principal | Promise<Principal> {
    if (!this.required) {
      return unrestricted;
    }
    const users = this.#users;
    if (authorization === null && session !== undefined) {
      return this.#authenticateSession(session);
    }
    if (authorization === null) {
      const id = workload?.();
      return (id === undefined ? undefined : this.#findWorkload(id)) ?? users?.anonymous ?? withoutPermissions;
    }
    if (users === undefined) {
      throw invalidToken(
        "This service issues no access tokens: omit Authorization, and call as a workload with a SPIFFE ID.",
      );
    }
    // The form of issued tokens. The scheme is case-insensitive (RFC 9110, section 11.1).
    if (!/^bearer +[\w-]{43}$/i.test(authorization)) {
      const [, jwt] = (users.issuers && /^bearer +([\w-]+\.[\w-]+\.[\w-]*)$/i.exec(authorization)) ?? [];
      if (users.issuers === undefined || jwt === undefined || audience !== "api") {
        throw invalidToken();
      }
      return users.issuers.authenticate(jwt);
    }
    const stored = this.#options.tokens.find(sha256(authorization.slice(-43)));
    return stored instanceof Promise
      ? stored.then((token) => this.#toPrincipal(users, token, audience))
      : this.#toPrincipal(users, stored, audience);
  }

  /**
   * Replaces users and defaults for all later calls. Tokens of unchanged users stay valid, and failed logins stay counted. Throws a
   * TypeError if adminAuth was not set, because the server does not expect tokens then.
   */
  replaceAdminAuth(adminAuth: AdminAuth, others: Pick<AuthenticatorOptions, "roles" | "issuers"> = {}): void {
    if (this.#users === undefined) {
      throw new TypeError("adminAuth is not set, and can't be added to a running service");
    }
    this.#users = this.#createUsers({ adminAuth, ...others });
    this.#replacements.notify();
  }

  /** Calls the listener when users and defaults were replaced. Disposing ends the subscription. */
  onReplaced(listener: () => void): Disposable {
    return this.#replacements.add(listener);
  }

  #createUsers({ adminAuth, issuers, roles = builtInRoles }: UsersOptions): Users {
    const { limiter, permissions } = this.#options;
    const { users } = adminAuth;
    return {
      adminAuth,
      known: { permissions, roles },
      accounts: new Accounts(users, this.#now),
      issuers,
      verifyLogin: users.length === 0 && issuers !== undefined ? undefined : createLoginCheck(users, limiter),
      anonymous: { username: undefined, permissions: adminAuth.default?.permissions ?? [] },
    };
  }

  #recordFailure(origin: Origin, detail: string, by?: string): void {
    this.#options.audit.record({ kind: "sign_in_failed", origin: { ...origin, by }, detail });
  }

  #authenticateSession(session: string): Principal | Promise<Principal> {
    if (!/^[\w-]{43}$/.test(session)) {
      throw endedSession();
    }
    const stored = this.#options.tokens.find(sha256(session));
    return stored instanceof Promise ? stored.then((token) => this.#ofSession(token)) : this.#ofSession(stored);
  }

  /** A token is no session, and a session no token: cookies are sent in other circumstances. */
  #ofSession(token: StoredToken | undefined): Principal | Promise<Principal> {
    const { sessions, uses } = this.#options;
    if (token?.session === undefined || sessions === undefined || audienceOf(token) !== "api") {
      throw endedSession();
    }
    const principal = this.#users?.accounts.principalOf(token) ?? sessions.principalOf(token);
    uses.record(token, this.#now());
    return principal;
  }

  #toPrincipal(
    { accounts }: Users,
    token: StoredToken | undefined,
    audience: Audience,
  ): Principal | Promise<Principal> {
    const { sessions, uses } = this.#options;
    // Sessions of the API have a cookie, the editor's a token.
    const isOf =
      token !== undefined && audienceOf(token) === audience && (token.session === undefined || audience === "tools");
    const principal = isOf
      ? (accounts.principalOf(token) ?? (token.session === undefined ? undefined : sessions?.principalOf(token)))
      : undefined;
    if (token === undefined || principal === undefined) {
      throw invalidToken();
    }
    uses.record(token, this.#now());
    return principal;
  }

  /** Expired tokens are already rejected; removing them occasionally, on logins, frees their space. */
  async #removeExpired(): Promise<void> {
    const nowMs = this.#now();
    if (nowMs - this.#cleanedUpAtMs >= cleanupIntervalMs) {
      this.#cleanedUpAtMs = nowMs;
      await this.#options.tokens.removeExpired(nowMs);
    }
  }
}

type UsersOptions = Pick<AuthenticatorOptions, "roles" | "issuers"> & { readonly adminAuth: AdminAuth };

type Users = {
  readonly adminAuth: AdminAuth;
  readonly known: KnownNames;
  readonly accounts: Accounts;
  /** Absent: there are issuers only. */
  readonly verifyLogin: VerifyLogin | undefined;
  readonly issuers: JwtAuthenticator | undefined;
  /** The principal of calls without a token. */
  readonly anonymous: Principal;
};
