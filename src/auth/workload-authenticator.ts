import type { Authenticator } from "./authenticator.ts";
import { authDisabled } from "./named-token.ts";
import type { Peer, Principal } from "./principal.ts";
import { tokenError } from "./token-error.ts";
import { invalidToken } from "./unauthorized.ts";

const unrestricted: Principal = { username: undefined, permissions: ["*"] };
const withoutPermissions: Principal = { username: undefined, permissions: [] };

/** Returns the principal of a workload; undefined: there is no identity, or no rule for it. */
export type IdentifyWorkload = (workload: Peer["workload"]) => Principal | undefined;

/** Without adminAuth: callers authenticate as workloads if `required` is set, otherwise not at all. */
export function createWorkloadAuthenticator(
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
