import type { MessageInitShape } from "@bufbuild/protobuf";
import type { GetLoginResponseSchema } from "../../gen/flowgate/v1/auth_pb.ts";
import type { Origin } from "../store/origin.ts";
import type { StoredToken } from "../store/token-store.ts";
import type { AdminAuth } from "./admin-auth.ts";
import type { AuditRecorder } from "./audit-recorder.ts";
import type { ClientKind } from "./client-key.ts";
import type { IdentityRule } from "./identities.ts";
import type { Limiter } from "./limiter.ts";
import type { NamedTokenRequest } from "./named-token.ts";
import type { NewToken } from "./new-token.ts";
import type { Peer, Principal } from "./principal.ts";
import type { Tokens } from "./token-cache.ts";
import type { TokenRequest } from "./token-request.ts";
import type { TokenUses } from "./token-uses.ts";

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
