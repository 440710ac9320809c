import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AuthService, type IssueTokenRequestSchema } from "../../../gen/flowgate/v1/auth_pb.ts";
import { bearer, form, json } from "../rest.ts";
import { call, rpcProtocolNames, rpcProtocols } from "../rpc.ts";
import { type Service, startService, withoutRuntime } from "../service.ts";
import { login, passwordOf, tokenParameters, type TokenParameters, user } from "../users.ts";
import { type Rejection, type Row, rpc, testRows } from "./rows.ts";

let service: Service;
let tokens: Readonly<Record<string, string>>;

beforeAll(async () => {
  const users = [user("admin", "*"), user("reader", "read"), user("forgetful", "*"), user("locked", "*")];
  service = await startService({ config: { ...withoutRuntime, adminAuth: { users } } });
  tokens = { good: await login(service, {}) };
  for (let tries = 0; tries < 5; tries += 1) {
    await service.send("POST", "/auth/token", {
      headers: form,
      body: encode({ username: "locked", password: "wrong" }),
    });
  }
});
afterAll(() => service?.[Symbol.asyncDispose]());

function encode(changes: Partial<TokenParameters>): string {
  return new URLSearchParams(tokenParameters(changes)).toString();
}

function issue(changes: Partial<TokenParameters>): Pick<Row, "rest" | "rpc"> {
  const parameters = tokenParameters(changes);
  const { client_id: clientId, grant_type: grantType, ...others } = parameters;
  const input: MessageInitShape<typeof IssueTokenRequestSchema> = { clientId, grantType, ...others };
  return {
    rest: [
      ["POST", "/auth/token", form, new URLSearchParams(parameters).toString()],
      ["POST", "/auth/token", json, JSON.stringify(parameters)],
    ],
    rpc: rpc(AuthService.method.issueToken, input),
  };
}

const basic = (credentials: string): string => `Basic ${btoa(credentials)}`;

/** Without `client_id` and, unless there are changes, for the scope `*` of the admin. */
function issueBy(
  authorization: string | null,
  changes?: { readonly clientId: string; readonly username?: string; readonly password?: string },
): Pick<Row, "rest" | "rpc"> {
  const { username, password, scope } = tokenParameters();
  const input = { grantType: "password", username, password, ...(changes ?? { scope }) };
  const names: Record<string, string> = { clientId: "client_id", grantType: "grant_type" };
  const body = new URLSearchParams(
    Object.entries(input).map(([name, value]) => [names[name] ?? name, value]),
  ).toString();
  const headers = authorization === null ? {} : { authorization };
  return {
    rest: [["POST", "/auth/token", { ...form, ...headers }, body]],
    rpc: async (transport) => await call(transport, AuthService.method.issueToken, input, headers),
  };
}

function issueForm(body: string): Pick<Row, "rest"> {
  return { rest: [["POST", "/auth/token", form, body]] };
}

function issueJson(body: object): Pick<Row, "rest"> {
  return { rest: [["POST", "/auth/token", json, JSON.stringify(body)]] };
}

const invalidRequest = (message?: string | RegExp): { rejection: Rejection } => ({
  rejection: {
    status: 400,
    code: Code.InvalidArgument,
    reason: "invalid_request",
    isOAuth: true,
    headers: { "cache-control": "no-store", pragma: "no-cache" },
    ...(message !== undefined && { message }),
  },
});

const oauth = (
  status: number,
  code: Code,
  reason: string,
  more: Partial<Rejection> = {},
): { rejection: Rejection } => ({
  rejection: {
    status,
    code,
    reason,
    isOAuth: true,
    headers: { "cache-control": "no-store", pragma: "no-cache" },
    ...more,
  },
});

const parameterNames = ["client_id", "grant_type", "scope", "username", "password"] as const;

const without = (name: keyof TokenParameters) =>
  Object.fromEntries(Object.entries(tokenParameters()).filter(([key]) => key !== name));

const token = { access_token: expect.stringMatching(/^[\w-]{43}$/), expires_in: 604_800, token_type: "Bearer" };
const issued = {
  response: token,
  headers: { "cache-control": "no-store", pragma: "no-cache", "content-type": "application/json" },
};

const issuing: Row[] = [
  { name: "a token", ...issue({}), ...issued },
  { name: "a token for the other client", ...issue({ client_id: "service-editor" }), ...issued },
  { name: "a token of a narrower scope", ...issue({ scope: "read flows.write" }), ...issued },
  { name: "a token of the user's own scope", ...issue({ username: "reader", scope: "flows.read" }), ...issued },
  { name: "a token with an unknown parameter", ...issueForm(`${encode({})}&unknown=1`), ...issued },
  // RFC 6749, appendix B. Scopes are in any order.
  {
    name: "a token for characters that are escaped, and spaces that are +",
    ...issueForm(encode({ scope: "settings.read flows.read" }).replace("admin", "%61dmin")),
    ...issued,
  },
  ...parameterNames.flatMap((name): Row[] => [
    {
      name: `${name} empty`,
      ...issue({ [name]: "" }),
      ...invalidRequest(`The parameter ${name} is missing or empty.`),
    },
    {
      name: `${name} missing`,
      rest: [
        ["POST", "/auth/token", form, new URLSearchParams(without(name)).toString()],
        ["POST", "/auth/token", json, JSON.stringify(without(name))],
      ],
      ...(name === "scope"
        ? { ...issued, response: { ...token, scope: "*" } }
        : invalidRequest(`The parameter ${name} is missing or empty.`)),
    },
    { name: `${name} repeated`, ...issueForm(`${encode({})}&${name}=x`), ...invalidRequest() },
    {
      name: `${name}[] in place of ${name}`,
      ...issueForm(encode({}).replace(`${name}=`, `${name}[]=`)),
      ...invalidRequest(),
    },
    { name: `${name} an object`, ...issueJson({ ...tokenParameters(), [name]: { a: "b" } }), ...invalidRequest() },
    { name: `${name} an array`, ...issueJson({ ...tokenParameters(), [name]: ["x"] }), ...invalidRequest() },
    { name: `${name} a number`, ...issueJson({ ...tokenParameters(), [name]: 1 }), ...invalidRequest() },
    { name: `${name} null`, ...issueJson({ ...tokenParameters(), [name]: null }), ...invalidRequest() },
  ]),
  {
    name: "a token with all permissions of the user, without a scope",
    ...issueBy(null, { username: "reader", password: passwordOf("reader"), clientId: "service-admin" }),
    ...issued,
    response: { ...token, scope: "read" },
  },
  { name: "a client that authenticates by HTTP Basic", ...issueBy(basic("service-admin:")), ...issued },
  {
    name: "a client_id both as parameter and by HTTP Basic",
    ...issueBy(basic("service-admin:"), { clientId: "service-admin" }),
    ...invalidRequest("Send client_id as a parameter or by HTTP Basic authentication, not by both."),
  },
  {
    name: "an unknown client by HTTP Basic",
    ...issueBy(basic("unknown:")),
    ...oauth(401, Code.Unauthenticated, "invalid_client", {
      headers: { "cache-control": "no-store", "www-authenticate": 'Basic realm="flowgate"' },
      message: "This client_id is not configured.",
    }),
  },
  ...["service-admin:secret", ":", "service-admin", "service%zzadmin:"].map((credentials): Row => ({
    name: `HTTP Basic with ${credentials}`,
    ...issueBy(basic(credentials)),
    ...oauth(401, Code.Unauthenticated, "invalid_client", {
      headers: { "cache-control": "no-store", "www-authenticate": 'Basic realm="flowgate"' },
    }),
  })),
  { name: "no parameters at all", ...issueForm(""), rpc: rpc(AuthService.method.issueToken, {}), ...invalidRequest() },
  { name: "a bad escape", ...issueForm(`${encode({})}%zz`), ...invalidRequest() },
  { name: "escaped bytes that are no UTF-8", ...issueForm(`${encode({})}%ff%fe`), ...invalidRequest() },
  {
    name: "bytes that are not UTF-8",
    rest: [["POST", "/auth/token", form, Buffer.concat([Buffer.from(encode({})), Buffer.from([0xff])])]],
    ...invalidRequest(),
  },
  { name: "a JSON array", ...issueJson([]), ...invalidRequest() },
  { name: "malformed JSON", rest: [["POST", "/auth/token", json, "{"]], ...invalidRequest() },
  {
    name: "a duplicate JSON key",
    rest: [["POST", "/auth/token", json, JSON.stringify(tokenParameters()).replace("{", '{"scope":"*",')]],
    ...invalidRequest(),
  },
  {
    name: "an unknown client",
    ...issue({ client_id: "other" }),
    ...oauth(401, Code.Unauthenticated, "invalid_client"),
  },
  ...["client_credentials", "Password", "password "].map((grant_type): Row => ({
    name: `grant_type ${JSON.stringify(grant_type)}`,
    ...issue({ grant_type }),
    ...oauth(400, Code.InvalidArgument, "unsupported_grant_type"),
  })),
  ...["write", "flows.delete", "read,flows.write", "*.read", "READ", "__proto__"].map((scope): Row => ({
    name: `scope ${JSON.stringify(scope)}`,
    ...issue({ scope }),
    ...oauth(400, Code.InvalidArgument, "invalid_scope"),
  })),
  ...["*", "flows.write", "read flows.write"].map((scope): Row => ({
    name: `scope ${JSON.stringify(scope)} of a user who may only read`,
    ...issue({ username: "reader", scope }),
    ...oauth(400, Code.InvalidArgument, "invalid_scope"),
  })),
  {
    name: "another content type",
    rest: [
      ["POST", "/auth/token", { "content-type": "text/plain" }, encode({})],
      ["POST", "/auth/token", {}, encode({})],
    ],
    ...oauth(415, Code.Unknown, "invalid_request"),
  },
  {
    name: "a user locked after 5 failures",
    ...issue({ username: "locked" }),
    ...oauth(429, Code.ResourceExhausted, "temporarily_unavailable", {
      headers: { "cache-control": "no-store", "retry-after": expect.stringMatching(/^[1-9]\d{0,2}$/) },
    }),
  },
];

const revoking: Row[] = [
  {
    name: "an unknown token",
    as: "good",
    rest: [
      ["POST", "/auth/revoke", form, "token=unknown"],
      ["POST", "/auth/revoke", json, '{"token":"unknown"}'],
    ],
    rpc: rpc(AuthService.method.revokeToken, { token: "unknown" }),
    response: undefined,
    headers: { "content-length": "0" },
  },
  {
    name: "a revocation without a token",
    as: "good",
    rest: [
      ["POST", "/auth/revoke", form, "x=y"],
      ["POST", "/auth/revoke", form, "token="],
      ["POST", "/auth/revoke", form, ""],
      ["POST", "/auth/revoke", json, "{}"],
    ],
    rpc: rpc(AuthService.method.revokeToken, {}),
    rejection: { status: 400, code: Code.InvalidArgument, reason: "invalid_request", isOAuth: true },
  },
  {
    name: "a revocation of two tokens",
    as: "good",
    rest: [
      ["POST", "/auth/revoke", form, "token=a&token=b"],
      ["POST", "/auth/revoke", json, '{"token":["a"]}'],
    ],
    rejection: { status: 400, code: Code.InvalidArgument, reason: "invalid_request", isOAuth: true },
  },
  {
    name: "a revocation with another content type",
    as: "good",
    rest: [["POST", "/auth/revoke", { "content-type": "text/plain" }, "token=a"]],
    rejection: { status: 415, code: Code.Unknown, reason: "invalid_request", isOAuth: true },
  },
];

testRows({ issuing, revoking }, () => ({ service, tokens }));

describe("logins that fail", () => {
  test("an unknown user and a wrong password get identical responses", async () => {
    const bodies = new Set<string>();
    const wrong = [
      { username: "forgetful", password: "wrong" },
      { username: "nobody at all", password: "wrong" },
      { username: "constructor", password: "wrong" },
      { username: "__proto__", password: "wrong" },
      { username: "toString", password: passwordOf("admin") },
    ];
    for (const changes of wrong) {
      const reply = await service.send("POST", "/auth/token", { headers: form, body: encode(changes) });
      const { date: _date, "x-request-id": _requestId, ...headers } = reply.headers;
      bodies.add(JSON.stringify([reply.status, headers, reply.body]));
    }
    expect(bodies.size).toBe(1);
    expect(bodies.values().next().value).toMatch(/^\[400,.*\\"error\\":\\"invalid_grant\\"/);
  });

  test.for(rpcProtocolNames)("over %s too", async (protocol) => {
    const transport = rpcProtocols[protocol](service.url);
    for (const username of ["admin", `unknown over ${protocol}`]) {
      const { username: _, client_id: clientId, grant_type: grantType, ...others } = tokenParameters();
      const outcome = await call(transport, AuthService.method.issueToken, {
        ...others,
        clientId,
        grantType,
        username,
        password: "wrong",
      });
      expect(outcome).toMatchObject({
        refused: {
          code: Code.Unauthenticated,
          reason: "invalid_grant",
          message: "The username or the password is wrong.",
        },
      });
    }
    // A success resets the count, so that the user is not locked out after the fifth protocol.
    await login(service, {});
  });

  test("5 of them lock a user out, whether it exists or not", async () => {
    const statuses: number[] = [];
    for (let tries = 0; tries < 6; tries += 1) {
      const body = encode({ username: "a name that none has", password: "wrong" });
      statuses.push((await service.send("POST", "/auth/token", { headers: form, body })).status);
    }
    expect(statuses).toEqual([400, 400, 400, 400, 400, 429]);
  });
});

test.each(["/auth/token", "/auth/revoke"])("%s takes POST only", async (path) => {
  const { status, headers } = await service.send("GET", path, { headers: bearer(tokens["good"] ?? "") });
  expect({ status, allow: headers["allow"] }).toEqual({ status: 405, allow: "POST, OPTIONS" });
});

test("a token is taken from the Authorization header only, whose scheme is in any case", async () => {
  const own = await login(service, {});
  const replies = [
    await service.send("GET", "/settings", { headers: { authorization: `bEaReR ${own}` } }),
    await service.send("GET", `/settings?access_token=${own}`),
    await service.send("POST", "/flows", { headers: form, body: `access_token=${own}` }),
  ];
  expect(replies.map(({ status }) => status)).toEqual([200, 401, 401]);
});

test("a token is invalid after its revocation over any protocol", async () => {
  const revokeByForm = (t: string, hint = "") =>
    service.send("POST", "/auth/revoke", { headers: { ...form, ...bearer(t) }, body: `token=${t}${hint}` });
  const ways: [string, (token: string) => Promise<unknown>][] = [
    ["form", revokeByForm],
    // RFC 7009, 2.1
    ["form with a wrong hint", (t) => revokeByForm(t, "&token_type_hint=refresh_token")],
    ["form with an unknown hint", (t) => revokeByForm(t, "&token_type_hint=unknown")],
    [
      "JSON",
      (t) =>
        service.send("POST", "/auth/revoke", {
          headers: { ...json, ...bearer(t) },
          body: JSON.stringify({ token: t }),
        }),
    ],
    ...rpcProtocolNames.map((name): [string, (token: string) => Promise<unknown>] => [
      name,
      (token) => call(rpcProtocols[name](service.url), AuthService.method.revokeToken, { token }, bearer(token)),
    ]),
  ];
  for (const [name, revoke] of ways) {
    const issued = await login(service, {});
    expect((await service.send("GET", "/settings", { headers: bearer(issued) })).status).toBe(200);
    await revoke(issued);
    const { status } = await service.send("GET", "/settings", { headers: bearer(issued) });
    expect([name, status]).toEqual([name, 401]);
  }
});
