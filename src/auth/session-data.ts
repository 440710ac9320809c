import type { JWTPayload } from "jose";

/** The stored session of a user who has signed in at an issuer. */
export type SessionData = {
  readonly issuer: string;
  readonly idToken: string;
  readonly refreshToken?: string | undefined;
  /** The time at which the claims are renewed with the refresh token. */
  readonly renewAtMs?: number | undefined;
  /** Until then, no process begins a renewal. */
  readonly pausedUntilMs?: number | undefined;
};

/** The stored data of any session. Sessions of users with a password have no data. */
export type KeptData = Partial<SessionData> & { readonly handoverUntilMs?: number | undefined };

export type Session = SessionData & { readonly claims: JWTPayload };

/** Undefined: it can't be decrypted any more, or is no session. */
export function parseKept(session: string | undefined): KeptData | undefined {
  return session === undefined || session === "" ? undefined : (JSON.parse(session) as KeptData);
}

/** Undefined for a user with a password. */
export function readSession(data: KeptData | undefined): Session | undefined {
  const { issuer, idToken } = data ?? {};
  return issuer === undefined || idToken === undefined
    ? undefined
    : { ...data, issuer, idToken, claims: claimsOf(idToken) };
}

/** The claims of a JWT that was verified when it was received. */
function claimsOf(jwt: string): JWTPayload {
  const [, payload = ""] = jwt.split(".");
  return JSON.parse(Buffer.from(payload, "base64url").toString()) as JWTPayload;
}
