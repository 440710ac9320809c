import { bearer, form, json, type Reply, type Sending } from "../test/e2e/rest.ts";
import { passwordOf, type TokenParameters, tokenParameters } from "../test/e2e/users.ts";

/** Sends requests to a service whose users are `admin` (all permissions) and `reader` (`read`). */
export type TokenClient = {
  send(method: string, path: string, sending?: Sending): Promise<Reply>;
  /** Returns a new token. */
  token(username: string): Promise<string>;
};

/** A requirement of an RFC on the endpoints for tokens. */
export type TokenCase = {
  readonly clause: string;
  readonly requirement: string;
  request(client: TokenClient): Promise<Reply>;
  readonly status: number;
  /** `error` of the response body. */
  readonly error?: string;
  readonly headers?: Readonly<Record<string, RegExp>>;
  readonly body?: RegExp;
};

const issue = (client: TokenClient, changes: Partial<TokenParameters> = {}, extra = "", headers = {}) =>
  client.send("POST", "/auth/token", {
    headers: { ...form, ...headers },
    body: `${new URLSearchParams(tokenParameters(changes)).toString()}${extra}`,
  });

const without = (client: TokenClient, name: keyof TokenParameters, headers = {}) => {
  const parameters = new URLSearchParams(tokenParameters());
  parameters.delete(name);
  return client.send("POST", "/auth/token", { headers: { ...form, ...headers }, body: parameters.toString() });
};

const basic = (name: string, password = "") => ({ authorization: `Basic ${btoa(`${name}:${password}`)}` });

const revoke = async (client: TokenClient, body: (token: string) => string) => {
  const token = await client.token("admin");
  return client.send("POST", "/auth/revoke", { headers: { ...form, ...bearer(token) }, body: body(token) });
};

const noStore = { "cache-control": /no-store/, pragma: /no-cache/ };
/** RFC 6749, 5.2: the characters of error_description. */
const isDescribed = /"error_description":"[\x20\x21\x23-\x5b\x5d-\x7e]+"/;

const issued = { status: 200, body: /"access_token":"[\w-]+"/ };
const readable = { status: 200, body: /^\[/ };

const issuing: readonly TokenCase[] = [
  {
    clause: "RFC 6749, 5.1",
    requirement: "a token is returned as JSON that is not cached",
    request: (client) => issue(client),
    status: 200,
    headers: { ...noStore, "content-type": /^application\/json/ },
    body: /"access_token":"[\w-]+","expires_in":\d+,"token_type":"Bearer"/,
  },
  {
    clause: "RFC 6749, 3.2",
    requirement: "tokens are issued by POST only",
    request: (client) => client.send("GET", "/auth/token"),
    status: 405,
    headers: { allow: /POST/ },
  },
  {
    clause: "RFC 6749, 3.2",
    requirement: "unknown parameters are ignored",
    request: (client) => issue(client, {}, "&unknown=1"),
    ...issued,
  },
  {
    clause: "RFC 6749, 3.2",
    requirement: "a repeated parameter is invalid_request",
    request: (client) => issue(client, {}, "&scope=read"),
    status: 400,
    error: "invalid_request",
  },
  ...(["client_id", "grant_type", "username", "password"] as const).map((name): TokenCase => ({
    clause: "RFC 6749, 5.2",
    requirement: `a request without ${name} is invalid_request`,
    request: (client) => without(client, name),
    status: 400,
    error: "invalid_request",
    body: isDescribed,
    headers: noStore,
  })),
  ...(["client_id", "grant_type", "username", "password"] as const).map((name): TokenCase => ({
    clause: "RFC 6749, 3.2",
    requirement: `an empty ${name} counts as omitted`,
    request: (client) => issue(client, { [name]: "" }),
    status: 400,
    error: "invalid_request",
  })),
  {
    clause: "RFC 6749, 5.2",
    requirement: "an unknown client is invalid_client",
    request: (client) => issue(client, { client_id: "nobody" }),
    status: 401,
    error: "invalid_client",
    body: isDescribed,
  },
  {
    clause: "RFC 6749, 5.2",
    requirement: "an unknown client that used HTTP Basic gets a challenge of that scheme",
    request: (client) => without(client, "client_id", basic("nobody")),
    status: 401,
    error: "invalid_client",
    headers: { "www-authenticate": /^Basic/ },
  },
  {
    clause: "RFC 6749, 5.2",
    requirement: "another grant type is unsupported_grant_type",
    request: (client) => issue(client, { grant_type: "client_credentials" }),
    status: 400,
    error: "unsupported_grant_type",
  },
  {
    clause: "RFC 6749, 5.2",
    requirement: "a wrong password is invalid_grant",
    request: (client) => issue(client, { password: "wrong" }),
    status: 400,
    error: "invalid_grant",
    body: isDescribed,
  },
  {
    clause: "RFC 6749, 5.2",
    requirement: "an unknown user is invalid_grant",
    request: (client) => issue(client, { username: "nobody" }),
    status: 400,
    error: "invalid_grant",
  },
  {
    clause: "RFC 6749, 5.2",
    requirement: "an unknown scope is invalid_scope",
    request: (client) => issue(client, { scope: "unknown" }),
    status: 400,
    error: "invalid_scope",
  },
  {
    clause: "RFC 6749, 5.2",
    requirement: "a scope beyond what the user may is invalid_scope",
    request: (client) => issue(client, { username: "reader", scope: "*" }),
    status: 400,
    error: "invalid_scope",
  },
  {
    clause: "RFC 6749, 3.3",
    requirement: "without a scope there is a default, which is returned",
    request: (client) => without(client, "scope"),
    status: 200,
    body: /"scope":"[^"]+"/,
  },
  {
    clause: "RFC 6749, 3.3",
    requirement: "scopes are in any order",
    request: (client) => issue(client, { scope: "settings.read flows.read" }),
    ...issued,
  },
  {
    clause: "RFC 6749, 3.3",
    requirement: "scopes are case-sensitive",
    request: (client) => issue(client, { scope: "READ" }),
    status: 400,
    error: "invalid_scope",
  },
  {
    clause: "RFC 6749, 2.3.1",
    requirement: "the client may use HTTP Basic",
    request: (client) => without(client, "client_id", basic("service-admin")),
    ...issued,
  },
  {
    clause: "RFC 6749, 2.3",
    requirement: "two methods of client authentication in a request are refused",
    request: (client) => issue(client, {}, "", basic("service-admin")),
    status: 400,
    error: "invalid_request",
  },
  {
    clause: "RFC 6749, appendix B",
    requirement: "values are UTF-8, and spaces may be +",
    request: (client) =>
      client.send("POST", "/auth/token", {
        headers: form,
        body: `client_id=service-admin&grant_type=password&scope=flows.read+settings.read&username=%61dmin&password=${encodeURIComponent(passwordOf("admin")).replaceAll("%20", "+")}`,
      }),
    ...issued,
  },
  {
    clause: "RFC 6749, appendix B",
    requirement: "values that are not UTF-8 are invalid_request",
    request: (client) => issue(client, {}, "&unknown=1&scope2=%ff&username=%ff"),
    status: 400,
    error: "invalid_request",
  },
];

const presenting: readonly TokenCase[] = [
  {
    clause: "RFC 6750, 2.1",
    requirement: "a token is sent in the Authorization header",
    request: async (client) => client.send("GET", "/flows", { headers: bearer(await client.token("admin")) }),
    ...readable,
  },
  {
    clause: "RFC 9110, 11.1",
    requirement: "the name of the scheme is case-insensitive",
    request: async (client) =>
      client.send("GET", "/flows", { headers: { authorization: `bEaReR ${await client.token("admin")}` } }),
    ...readable,
  },
  {
    clause: "RFC 6750, 3",
    requirement: "a request without a token gets a challenge",
    request: (client) => client.send("GET", "/flows"),
    status: 401,
    headers: { "www-authenticate": /^Bearer realm="[^"]+"$/ },
  },
  {
    clause: "RFC 6750, 3.1",
    requirement: "an unknown token is invalid_token",
    request: (client) => client.send("GET", "/flows", { headers: bearer("x".repeat(43)) }),
    status: 401,
    headers: { "www-authenticate": /^Bearer .*error="invalid_token"/ },
  },
  // The specification of the API knows no 403.
  {
    clause: "RFC 6750, 3.1",
    requirement: "a missing permission is insufficient_scope, and named",
    request: async (client) =>
      client.send("POST", "/flows", { headers: { ...json, ...bearer(await client.token("reader")) }, body: "[]" }),
    status: 401,
    headers: { "www-authenticate": /error="insufficient_scope".*scope="flows\.write"/ },
  },
  {
    clause: "RFC 6750, 5.3",
    requirement: "a token in a URL is not accepted",
    request: async (client) => client.send("GET", `/flows?access_token=${await client.token("admin")}`),
    status: 401,
  },
  {
    clause: "RFC 6750, 2.2",
    requirement: "a token in a form is not accepted",
    request: async (client) =>
      client.send("POST", "/flows", { headers: form, body: `access_token=${await client.token("admin")}` }),
    status: 401,
  },
];

const revoking: readonly TokenCase[] = [
  {
    clause: "RFC 7009, 2.2",
    requirement: "a revocation succeeds with 200 and an empty body",
    request: (client) => revoke(client, (token) => `token=${token}`),
    status: 200,
    body: /^$/,
  },
  {
    clause: "RFC 7009, 2.2",
    requirement: "the revocation of an unknown token succeeds",
    request: (client) => revoke(client, () => "token=unknown"),
    status: 200,
    body: /^$/,
  },
  {
    clause: "RFC 7009, 2.1",
    requirement: "a revocation without a token is invalid_request",
    request: (client) => revoke(client, () => "other=1"),
    status: 400,
    error: "invalid_request",
  },
  {
    clause: "RFC 7009, 2.1",
    requirement: "a revocation with two tokens is invalid_request",
    request: (client) => revoke(client, (token) => `token=${token}&token=${token}`),
    status: 400,
    error: "invalid_request",
  },
  {
    clause: "RFC 7009, 2.1",
    requirement: "an unknown token_type_hint is ignored",
    request: (client) => revoke(client, (token) => `token=${token}&token_type_hint=unknown`),
    status: 200,
    body: /^$/,
  },
  {
    clause: "RFC 7009, 2.1",
    requirement: "a wrong token_type_hint does not prevent the revocation",
    request: async (client) => revokeAndUse(client, "&token_type_hint=refresh_token"),
    status: 401,
  },
  {
    clause: "RFC 7009, 2.2",
    requirement: "a revoked token is refused at once",
    request: async (client) => revokeAndUse(client, ""),
    status: 401,
    headers: { "www-authenticate": /invalid_token/ },
  },
  {
    clause: "RFC 7009, 2.1",
    requirement: "a revocation needs authentication",
    request: (client) => client.send("POST", "/auth/revoke", { headers: form, body: "token=unknown" }),
    status: 401,
  },
  {
    clause: "RFC 7009, 2",
    requirement: "tokens are revoked by POST only",
    request: (client) => client.send("GET", "/auth/revoke"),
    status: 405,
  },
];

async function revokeAndUse(client: TokenClient, extra: string): Promise<Reply> {
  const token = await client.token("admin");
  await client.send("POST", "/auth/revoke", { headers: { ...form, ...bearer(token) }, body: `token=${token}${extra}` });
  return client.send("GET", "/flows", { headers: bearer(token) });
}

export const tokenCases: readonly TokenCase[] = [...issuing, ...presenting, ...revoking];

/** Describes how a response differs from the case; undefined if it does not. */
export function checkTokenCase(
  { clause, requirement, status, error, headers = {}, body }: TokenCase,
  reply: Reply,
): string | undefined {
  const wrongHeader = Object.entries(headers).find(
    ([name, pattern]) => !pattern.test(String(reply.headers[name] ?? "")),
  );
  const isOk =
    reply.status === status &&
    (error === undefined || reply.body.includes(`"error":"${error}"`)) &&
    (body === undefined || body.test(reply.body)) &&
    wrongHeader === undefined;
  const header = wrongHeader === undefined ? "" : `, ${wrongHeader[0]}: ${String(reply.headers[wrongHeader[0]])}`;
  return isOk ? undefined : `${clause}: ${requirement}: ${reply.status} ${reply.body.slice(0, 200)}${header}`;
}
