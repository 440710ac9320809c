import { invalidClient, type OAuthClient } from "./oauth-client.ts";
import { parseScope } from "./permissions.ts";
import { tokenError } from "./token-error.ts";

/** The parameters of IssueToken. */
export type TokenRequest = {
  /** Empty if the client sends it by HTTP Basic authentication. */
  readonly clientId: string;
  readonly grantType: string;
  /** Absent: all permissions of the user. */
  readonly scope?: string | undefined;
  readonly username: string;
  readonly password: string;
};

const parameters = [
  ["client_id", "clientId"],
  ["grant_type", "grantType"],
  ["scope", "scope"],
  ["username", "username"],
  ["password", "password"],
] as const;

/** Validates a request as far as possible without the user. Returns its scope; undefined: it has none. */
export function parseTokenRequest(
  request: TokenRequest,
  {
    client,
    clientIds,
    permissions,
  }: {
    readonly client: OAuthClient;
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
    throw invalidClient("This client_id is not configured.", client.usesBasic);
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
