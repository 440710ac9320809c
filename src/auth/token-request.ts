import type { FlowgateError } from "@flowgate/flows/errors";
import type { Origin } from "../store/audit-store.ts";
import type { Audience } from "./audiences.ts";
import type { ClientKind } from "./caller.ts";
import { tokenError } from "./errors.ts";
import { type KnownNames, listNames, maxScopeChars, parseScope } from "./permissions.ts";

export type TokenRequest = {
  /** Empty if the client sends it by HTTP Basic authentication. */
  readonly clientId: string;
  readonly grantType: string;
  /** Absent: all permissions of the user. */
  readonly scope?: string | undefined;
  readonly username: string;
  readonly password: string;
};

export type TokenPeer = {
  /** Failed attempts are counted per address. */
  readonly origin: Origin;
  /** The Authorization header; null: there is none. */
  readonly authorization: string | null;
  /** The transport of the client. Absent: TCP. */
  readonly kind?: ClientKind | undefined;
  /** The listener that accepts the token. Absent: the API's. */
  readonly audience?: Audience;
};

export type IssuedToken = {
  readonly accessToken: string;
  /** Lifetime in seconds. */
  readonly expiresIn: number;
  readonly tokenType: "Bearer";
  /** Present if the request had none. */
  readonly scope?: string;
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
    known,
  }: { readonly client: OAuthClient; readonly clientIds: readonly string[]; readonly known: KnownNames },
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
  const scope = parseScope(request.scope, known);
  if (scope === undefined) {
    throw tokenError(
      "invalid_scope",
      `The scope must be a space-separated list, of at most ${maxScopeChars} characters, of: ${listNames(known)}.`,
    );
  }
  return scope;
}

/** The OAuth client that requests a token, and how it sent its id. Clients have no secret. */
export type OAuthClient = { readonly id: string; readonly usesBasic: boolean };

/**
 * Reads the client's id from the parameter `client_id`, or from HTTP Basic authentication with an empty password (RFC
 * 6749, section 2.3.1). Other schemes in the Authorization header are not client authentication, and are ignored.
 */
export function readOAuthClient(parameter: string, authorization: string | null): OAuthClient {
  const credentials = /^basic(?: +(.*))?$/i.exec(authorization ?? "");
  if (credentials === null) {
    return { id: parameter, usesBasic: false };
  }
  if (parameter !== "") {
    throw tokenError("invalid_request", "Send client_id as a parameter or by HTTP Basic authentication, not by both.");
  }
  const [id, secret] = decodeBasic(credentials[1] ?? "") ?? [];
  if (id === undefined || id === "" || secret !== "") {
    throw invalidClient(
      "HTTP Basic authentication must have the client_id as user and an empty password, both form-urlencoded.",
      true,
    );
  }
  return { id, usesBasic: true };
}

/** Clients that authenticated by a header get a challenge (RFC 6749, section 5.2). */
function invalidClient(description: string, usesBasic: boolean): FlowgateError {
  return tokenError("invalid_client", description, usesBasic ? { challenge: 'Basic realm="flowgate"' } : {});
}

/** User and password (RFC 7617); undefined: invalid. */
function decodeBasic(credentials: string): [string, string] | undefined {
  if (!/^[A-Za-z\d+/]+={0,2}$/.test(credentials)) {
    return undefined;
  }
  const pair = Buffer.from(credentials, "base64").toString();
  const colon = pair.indexOf(":");
  try {
    return colon === -1 ? undefined : [decodeForm(pair.slice(0, colon)), decodeForm(pair.slice(colon + 1))];
  } catch (error) {
    if (error instanceof URIError) {
      return undefined;
    }
    throw error;
  }
}

function decodeForm(text: string): string {
  return decodeURIComponent(text.replaceAll("+", " "));
}
