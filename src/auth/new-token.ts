import { randomBytes } from "node:crypto";
import type { StoredToken } from "../store/token-store.ts";
import { sha256 } from "./sha256.ts";

export type NewToken = {
  /** Not stored, and therefore available only now. */
  readonly accessToken: string;
  readonly token: StoredToken;
};

type NewTokenFields = Omit<StoredToken, "id" | "hash" | "createdAtMs" | "expiresAtMs"> & {
  readonly lifetimeSeconds: number;
};

/** Creates an access token, and what is stored of it. */
export function createNewToken(nowMs: number, { lifetimeSeconds, ...fields }: NewTokenFields): NewToken {
  const accessToken = randomBytes(32).toString("base64url");
  const token: StoredToken = {
    ...fields,
    // In hexadecimal, so that it does not begin with a dash.
    id: randomBytes(12).toString("hex"),
    hash: sha256(accessToken),
    createdAtMs: nowMs,
    expiresAtMs: nowMs + lifetimeSeconds * 1000,
  };
  return { accessToken, token };
}
