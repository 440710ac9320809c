import { hash, randomBytes } from "node:crypto";
import { FlowgateError } from "@flowgate/flows/errors";
import type { AuditRecord, Origin } from "../store/audit-store.ts";
import type { StoredToken } from "../store/token-store.ts";
import type { Principal } from "./caller.ts";
import { covers, type KnownNames, listNames, maxScopeChars, parseScope } from "./permissions.ts";

export type NamedTokenRequest = {
  readonly name: string;
  /** Permissions separated by spaces. Absent: all permissions of the caller. */
  readonly scope?: string | undefined;
  /** Lifetime in seconds. Absent: the lifetime of tokens issued for a login. */
  readonly expiresIn?: number | undefined;
};

type PreparedToken = { readonly name: string; readonly scope: readonly string[]; readonly lifetimeSeconds: number };

export function prepareNamedToken(
  { name, scope: requestedScope, expiresIn }: NamedTokenRequest,
  { permissions }: Principal,
  known: KnownNames,
  defaultLifetimeSeconds: number,
): PreparedToken {
  // Printable, since names appear in logs and terminals.
  if (!/^[^\p{C}\p{Zl}\p{Zp}]{1,100}$/u.test(name) || name.trim() !== name) {
    throw new FlowgateError(
      "invalid_argument",
      "name: must be 1 to 100 printable characters, without spaces at the beginning and the end",
    );
  }
  if (expiresIn !== undefined && expiresIn < 1) {
    throw new FlowgateError("invalid_argument", "expiresIn: must be a positive number of seconds");
  }
  const scope = requestedScope === undefined ? permissions : parseScope(requestedScope, known);
  if (scope === undefined) {
    throw new FlowgateError(
      "invalid_scope",
      `scope: must be a space-separated list, of at most ${maxScopeChars} characters, of: ${listNames(known)}`,
    );
  }
  if (scope.length === 0 || !covers(permissions, scope, known.permissions)) {
    throw new FlowgateError("invalid_scope", "scope: exceeds the permissions of the caller: request less");
  }
  return { name, scope, lifetimeSeconds: expiresIn ?? defaultLifetimeSeconds };
}

export function authDisabled(): FlowgateError {
  return new FlowgateError("auth_disabled", "This service issues no tokens: its adminAuth is not set.");
}

/** The caller is anonymous, a workload, or authenticated by a JWT. */
export function userRequired(): FlowgateError {
  return new FlowgateError(
    "user_required",
    "Only a user can create tokens: log in as a user, and call with the access token of the login.",
  );
}

export type NewToken = {
  /** Not stored, and therefore available only now. */
  readonly accessToken: string;
  readonly token: StoredToken;
};

type NewTokenFields = Omit<StoredToken, "id" | "hash" | "createdAtMs" | "expiresAtMs"> & {
  readonly lifetimeSeconds: number;
};

export function createNewToken(
  nowMs: number,
  { lifetimeSeconds, ...fields }: NewTokenFields,
  accessToken = randomBytes(32).toString("base64url"),
): NewToken {
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

export function creation({ id, name, scope, expiresAtMs }: StoredToken, origin: Origin): AuditRecord {
  const expiry = new Date(expiresAtMs).toISOString();
  const detail = `${JSON.stringify(name)}, scope ${scope}, expires ${expiry}`;
  return { kind: "token_created", origin, subject: id, detail };
}

export function revocation({ id, username }: StoredToken, origin: Origin) {
  return { kind: "token_revoked", origin, subject: id, detail: `a token of ${username}` } as const;
}

export function sha256(text: string): Buffer {
  // Runs for each call with a token. Node takes three times as long to create the Buffer itself.
  return Buffer.from(hash("sha256", text, "latin1"), "latin1");
}
