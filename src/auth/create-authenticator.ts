import type { Authenticator, AuthenticatorOptions } from "./authenticator.ts";
import { createIdentities } from "./identities.ts";
import { revocation } from "./revocation.ts";
import { sha256 } from "./sha256.ts";
import { createTokenAuthenticator } from "./token-authenticator.ts";
import type { Tokens } from "./token-cache.ts";
import { tokenError } from "./token-error.ts";
import { createWorkloadAuthenticator, type IdentifyWorkload } from "./workload-authenticator.ts";

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
