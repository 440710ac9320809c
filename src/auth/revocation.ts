import type { Origin } from "../store/origin.ts";
import type { StoredToken } from "../store/token-store.ts";

/** The audit entry of the revocation of one token. */
export function revocation({ id, username }: StoredToken, origin: Origin) {
  return { kind: "token_revoked", origin, subject: id, detail: `a token of ${username}` } as const;
}
