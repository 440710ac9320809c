import { FlowgateError } from "../errors.ts";
import { covers, parseScope } from "./permissions.ts";
import type { Principal } from "./principal.ts";

export type NamedTokenRequest = {
  readonly name: string;
  /** Permissions separated by spaces. Absent: all permissions of the caller. */
  readonly scope?: string | undefined;
  /** Lifetime in seconds. Absent: that of tokens issued for a login. */
  readonly expiresIn?: number | undefined;
};

type PreparedToken = {
  readonly name: string;
  readonly scope: readonly string[];
  readonly lifetimeSeconds: number;
};

/** Checks a request for a named token of the caller. */
export function prepareNamedToken(
  { name, scope: requestedScope, expiresIn }: NamedTokenRequest,
  { permissions }: Principal,
  defaults: { readonly permissions: ReadonlySet<string>; readonly tokenLifetimeSeconds: number },
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
  const scope = requestedScope === undefined ? permissions : parseScope(requestedScope, defaults.permissions);
  if (scope === undefined) {
    const known = ["*", "read", ...defaults.permissions].join(", ");
    throw new FlowgateError("invalid_scope", `scope: must be a space-separated list of: ${known}`);
  }
  if (scope.length === 0 || !covers(permissions, scope, defaults.permissions)) {
    throw new FlowgateError("invalid_scope", "scope: exceeds the permissions of the caller: request less");
  }
  return { name, scope, lifetimeSeconds: expiresIn ?? defaults.tokenLifetimeSeconds };
}

export function authDisabled(): FlowgateError {
  return new FlowgateError("auth_disabled", "This service issues no tokens: its adminAuth is not set.");
}

/** The caller is anonymous or a workload. */
export function userRequired(): FlowgateError {
  return new FlowgateError(
    "user_required",
    "Only a user can create tokens: call with an access token of a user, which POST /auth/token issues.",
  );
}
