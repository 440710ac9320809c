import { type DescMessage, type DescMethodUnary, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import { Code, type Transport } from "@connectrpc/connect";
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AuthService, type IssueTokenRequestSchema } from "../../gen/flowgate/v1/auth_pb.ts";
import {
  DeploymentType,
  FlowsService,
  type NodeSchema,
  type SetFlowsRequestSchema,
} from "../../gen/flowgate/v1/flows_pb.ts";
import { RuntimeService } from "../../gen/flowgate/v1/runtime_pb.ts";
import { SettingsService } from "../../gen/flowgate/v1/settings_pb.ts";
import { bearer, form, json, type Reply, send, v2 } from "./rest.ts";
import { call, type Outcome, rpcProtocolNames, rpcProtocols } from "./rpc.ts";
import { eventually, type Service, startService } from "./service.ts";
import { login, passwordOf, tokenParameters, type TokenParameters, user } from "./users.ts";

// One table of calls. Each is made over REST and over every RPC protocol, with one expectation.

const limit = 64 * 1024;
const adminAuth = {
  users: [
    user("admin", "*"),
    user("reader", "read"),
    user("writer", ["flows.write", "settings.read"]),
    user("forgetful", "*"),
    user("locked", "*"),
  ],
};

let service: Service;
let dataDir: string;
const transports = new Map<string, Transport>();
const tokens = { good: "", readOnly: "", narrow: "", expired: "", revoked: "" };

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "flowgate-e2e-protocols-"));
  {
    // Issued before a restart: tokens and their revocations survive it.
    await using earlier = await startService({
      dataDir,
      config: { adminAuth: { ...adminAuth, tokenLifetimeSeconds: 1 } },
    });
    tokens.expired = await login(earlier, {});
    await eventually(async () => {
      const { status } = await earlier.send("GET", "/settings", { headers: bearer(tokens.expired) });
      if (status !== 401) {
        throw new Error("the token has not expired");
      }
    });
  }
  {
    await using earlier = await startService({ dataDir, config: { adminAuth } });
    tokens.good = await login(earlier, {});
  }
  service = await startService({ dataDir, config: { adminAuth, limits: { bodyBytes: limit } } });
  tokens.readOnly = await login(service, { scope: "read" });
  tokens.narrow = await login(service, { username: "writer", scope: "flows.write" });
  tokens.revoked = await login(service, {});
  await service.send("POST", "/auth/revoke", {
    headers: { ...form, ...bearer(tokens.good) },
    body: `token=${tokens.revoked}`,
  });
  for (let tries = 0; tries < 5; tries += 1) {
    await service.send("POST", "/auth/token", {
      headers: form,
      body: encode({ username: "locked", password: "wrong" }),
    });
  }
  for (const name of rpcProtocolNames) {
    transports.set(name, rpcProtocols[name](service.url));
  }
});

afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
  await rm(dataDir, { recursive: true, force: true });
});

type Role = keyof typeof tokens | "nobody" | "unknown" | "nonsense" | "basic";

function authorization(role: Role): Record<string, string> {
  switch (role) {
    case "nobody":
      return {};
    case "unknown":
      return bearer("x".repeat(43));
    case "nonsense":
      return { authorization: "Bearer" };
    case "basic":
      return { authorization: `Basic ${btoa("admin:admin")}` };
    default:
      return bearer(tokens[role]);
  }
}

type Rest = readonly [method: string, path: string, headers?: Record<string, string>, body?: string | Buffer];
type Rpc = (transport: Transport, headers: Record<string, string>) => Promise<Outcome<DescMessage>>;

type Rejection = {
  readonly status: number;
  readonly code: Code;
  readonly reason: string;
  /** The code over RPC, if it differs. */
  readonly rpcReason?: unknown;
  readonly message?: string | RegExp;
  /** Over REST, the response then has no body. */
  readonly challenge?: string;
  /** Over REST, the body is that of RFC 6749. */
  readonly isOAuth?: boolean;
  readonly headers?: Record<string, unknown>;
};

type Row = {
  readonly name: string;
  readonly as?: Role;
  /** Several if REST has several forms. */
  readonly rest: readonly Rest[];
  /** Absent if RPC has no equivalent. */
  readonly rpc?: Rpc;
} & ({ readonly response: unknown; readonly headers?: Record<string, unknown> } | { readonly rejection: Rejection });

function rpc<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  input: MessageInitShape<I>,
): Rpc {
  return async (transport, headers) => await call(transport, method, input, headers);
}

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

const login_: Row[] = [
  {
    name: "the login scheme is public",
    rest: [["GET", "/auth/login"]],
    rpc: rpc(AuthService.method.getLogin, {}),
    response: {
      type: "credentials",
      prompts: [
        { id: "username", type: "text", label: "Username" },
        { id: "password", type: "password", label: "Password" },
      ],
    },
  },
];

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
    {
      name: `${name} repeated`,
      ...issueForm(`${encode({})}&${name}=x`),
      ...invalidRequest(),
    },
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

const protectedCalls: readonly (Pick<Row, "rest" | "rpc"> & { name: string })[] = [
  { name: "GetFlows", rest: [["GET", "/flows"]], rpc: rpc(FlowsService.method.getFlows, {}) },
  { name: "SetFlows", rest: [["POST", "/flows", json, "[]"]], rpc: rpc(FlowsService.method.setFlows, { flows: [] }) },
  { name: "GetSettings", rest: [["GET", "/settings"]], rpc: rpc(SettingsService.method.getSettings, {}) },
  {
    name: "RestartRuntime",
    rest: [["POST", "/runtime:restart", json, "{}"]],
    rpc: rpc(RuntimeService.method.restartRuntime, {}),
  },
  {
    name: "RevokeToken",
    rest: [["POST", "/auth/revoke", form, "token=x"]],
    rpc: rpc(AuthService.method.revokeToken, { token: "x" }),
  },
];

const unauthorized = (reason: string, code: Code, parameters: string): { rejection: Rejection } => ({
  rejection: { status: 401, code, reason, challenge: `Bearer realm="flowgate"${parameters}` },
});

const refused: Row[] = [
  ...protectedCalls.flatMap((each): Row[] => [
    { ...each, name: `${each.name} by nobody`, as: "nobody", ...unauthorized("no_token", Code.Unauthenticated, "") },
    ...(["unknown", "nonsense", "basic", "expired", "revoked"] as const).map((as): Row => ({
      ...each,
      name: `${each.name} with a token that is ${as}`,
      as,
      ...unauthorized("invalid_token", Code.Unauthenticated, ', error="invalid_token"'),
    })),
  ]),
  ...(
    [
      ["GetFlows", "narrow", "flows.read"],
      ["SetFlows", "readOnly", "flows.write"],
      ["GetSettings", "narrow", "settings.read"],
      ["RestartRuntime", "narrow", "runtime.write"],
    ] as const
  ).map(([operation, as, permission]): Row => {
    const { rest = [], rpc } = protectedCalls.find(({ name }) => name === operation) ?? {};
    return {
      name: `${operation} without ${permission}`,
      as,
      rest,
      ...(rpc !== undefined && { rpc }),
      ...unauthorized(
        "insufficient_scope",
        Code.PermissionDenied,
        `, error="insufficient_scope", scope="${permission}"`,
      ),
    };
  }),
  {
    name: "a token in the query string",
    as: "good",
    rest: [["GET", "/flows?access_token=x"]],
    ...unauthorized("invalid_token", Code.Unauthenticated, ', error="invalid_token"'),
  },
];

const restarting: Row[] = [
  {
    name: "the flows run in a new process",
    as: "good",
    rest: [["POST", "/runtime:restart"]],
    rpc: rpc(RuntimeService.method.restartRuntime, {}),
    // RPCs have the name of the enum's value.
    response: { rev: expect.any(String), outcome: expect.stringMatching(/^(?:DEPLOYMENT_OUTCOME_RUNNING|running)$/) },
  },
];

const reading: Row[] = [
  {
    name: "the settings",
    as: "good",
    rest: [["GET", "/settings"]],
    rpc: rpc(SettingsService.method.getSettings, {}),
    response: {
      version: expect.stringMatching(/^\d+\.\d+\.\d+$/),
      apiVersions: ["v1", "v2"],
      runtime: {
        name: "node-red",
        version: expect.stringMatching(/^\d+\.\d+\.\d+$/),
        state: "running",
        httpPort: expect.any(Number),
        // It depends on the machine.
        isolation: expect.anything(),
      },
      user: { username: "admin", permissions: ["*"] },
    },
  },
  {
    name: "the settings, with a restricted token",
    as: "readOnly",
    rest: [["GET", "/settings"]],
    rpc: rpc(SettingsService.method.getSettings, {}),
    response: expect.objectContaining({ user: { username: "admin", permissions: ["read"] } }),
  },
  {
    name: "the flows, with their revision",
    as: "readOnly",
    rest: [["GET", "/flows", v2]],
    rpc: rpc(FlowsService.method.getFlows, {}),
    response: { flows: [], rev: expect.any(String) },
    headers: { etag: expect.stringMatching(/^"[^"]+"$/), vary: "Service-API-Version" },
  },
  {
    name: "the flows of v1",
    as: "good",
    rest: [
      ["GET", "/flows"],
      ["GET", "/flows", { "SERVICE-API-version": "v1" }],
    ],
    response: [],
    headers: { etag: expect.stringMatching(/^"[^"]+"$/) },
  },
];

const versioned = (version: string): Record<string, string> => ({ ...json, "service-api-version": version });
const typed = (type: string): Record<string, string> => ({ ...json, "service-deployment-type": type });

const headerFaults: Row[] = [
  ...["v3", "V2", "", "v1,v2", "2"].map((version): Row => ({
    name: `version ${JSON.stringify(version)}`,
    as: "good",
    rest: [
      ["GET", "/flows", { "service-api-version": version }],
      ["POST", "/flows", versioned(version), "[]"],
      // Before anything else is checked.
      ["POST", "/flows", { ...versioned(version), "content-type": "text/plain" }, "{"],
      ["POST", "/flows", { ...versioned(version), "service-deployment-type": "no" }, "{"],
    ],
    rejection: { status: 400, code: Code.Unknown, reason: "invalid_api_version" },
  })),
  ...["Full", "", "all", "full, nodes"].map((type): Row => ({
    name: `deployment type ${JSON.stringify(type)}`,
    as: "good",
    rest: [
      ["POST", "/flows", typed(type), "[]"],
      ["POST", "/flows", { ...typed(type), ...v2 }, '{"flows":[]}'],
    ],
    rpc: rpc(FlowsService.method.setFlows, { flows: [], deploymentType: 99 as DeploymentType }),
    rejection: { status: 400, code: Code.InvalidArgument, reason: "invalid_deployment_type" },
  })),
  ...["Node-RED-Deployment-Type", "Node-RED-API-Version"].map((header): Row => ({
    name: `the header ${header}`,
    as: "good",
    rest: [
      ["POST", "/flows", { ...json, [header]: "nodes" }, "[]"],
      ["POST", "/flows", { ...json, ...v2, [header.toLowerCase()]: "v2" }, '{"flows":[]}'],
      ["GET", "/flows", { [header]: "v2" }],
    ],
    rejection: {
      status: 400,
      code: Code.InvalidArgument,
      reason: "invalid_argument",
      message: new RegExp(`^the header ${header}: .*: send ${header.replace("Node-RED", "Service")} instead`),
    },
  })),
];

type NodeInit = MessageInitShape<typeof NodeSchema>;
type SetFlowsInit = MessageInitShape<typeof SetFlowsRequestSchema>;

/** Invalid nodes, with the message and path of their error. */
function invalidNodes(name: string, path: string, nodes: unknown, rpcNodes?: NodeInit[]): Row {
  return invalidBody(name, path, { flows: nodes }, rpcNodes && { flows: rpcNodes }, [
    ["POST", "/flows", json, JSON.stringify(nodes)],
  ]);
}

function invalidBody(name: string, path: string, body: unknown, input?: SetFlowsInit, more: Rest[] = []): Row {
  return {
    name,
    as: "good",
    rest: [["POST", "/flows", { ...json, ...v2 }, JSON.stringify(body)], ...more],
    ...(input !== undefined && { rpc: rpc(FlowsService.method.setFlows, input) }),
    rejection: {
      status: 400,
      code: Code.InvalidArgument,
      reason: "invalid_flows",
      message: new RegExp(`^${RegExp.escape(path)}: `),
    },
  };
}

const tab = { id: "t", type: "tab" };
const group = (id: string, g?: string) => ({ id, type: "group", z: "t", ...(g !== undefined && { g }) });
const groupNode = (id: string, g?: string): NodeInit => ({
  id,
  type: "group",
  properties: { z: "t", ...(g !== undefined && { g }) },
});
const subflow = (id: string) => ({ id, type: "subflow", name: id });
const subflowNode = (id: string): NodeInit => ({ id, type: "subflow", properties: { name: id } });
const instance = (id: string, of: string, z: string) => ({ id, type: `subflow:${of}`, z });
const instanceNode = (id: string, of: string, z: string): NodeInit => ({
  id,
  type: `subflow:${of}`,
  properties: { z },
});

/** This many nested objects. */
function nested(levels: number): object {
  return levels === 1 ? {} : { a: nested(levels - 1) };
}

const bodyFaults: Row[] = [
  ...[{}, "text", 1, true, null, { flows: [] }].map((body): Row => ({
    name: `v1 with ${JSON.stringify(body)}`,
    as: "good",
    rest: [["POST", "/flows", json, JSON.stringify(body)]],
    rejection: {
      status: 400,
      code: Code.Unknown,
      reason: "invalid_flows",
      message: /^(?:flows|the body): must be an array/,
    },
  })),
  ...[[], "text", 1, true, null].map((body): Row => ({
    name: `v2 with ${JSON.stringify(body)}`,
    as: "good",
    rest: [["POST", "/flows", { ...json, ...v2 }, JSON.stringify(body)]],
    rejection: { status: 400, code: Code.Unknown, reason: "invalid_flows", message: /^the body: / },
  })),
  invalidBody("v2 without flows", "flows", {}),
  invalidBody("v2 with flows that are null", "flows", { flows: null }),
  invalidBody("v2 with flows that are an object", "flows", { flows: {} }),
  invalidBody("v2 with an unknown key", "flow", { flows: [], flow: [] }),
  ...[1, "a", null, [], true].map((element) =>
    invalidNodes(`a node that is ${JSON.stringify(element)}`, "flows[1]", [tab, element]),
  ),
  ...["id", "type"].flatMap((key) => {
    const other = { id: "a", type: "b" };
    const others = Object.fromEntries(Object.entries(other).filter(([name]) => name !== key));
    return [
      invalidNodes(`${key} missing`, `flows[1].${key}`, [tab, others], [tab, others]),
      invalidNodes(`${key} empty`, `flows[1].${key}`, [tab, { ...other, [key]: "" }], [tab, { ...other, [key]: "" }]),
      ...[1, null, {}, ["a"]].map((value) =>
        invalidNodes(`${key} ${JSON.stringify(value)}`, `flows[1].${key}`, [tab, { ...other, [key]: value }]),
      ),
    ];
  }),
  invalidNodes(
    "the same id twice",
    "flows[2].id",
    [tab, { id: "a", type: "b" }, tab],
    [tab, { id: "a", type: "b" }, tab],
  ),
  ...(
    [
      ["null", null, ""],
      ["an object", {}, ""],
      ["a text", "a", ""],
      ["an array of texts", ["a"], "[0]"],
      ["an array that holds null", [[], null], "[1]"],
      ["an array of arrays of numbers", [["a", 1]], "[0][1]"],
      ["an array of arrays of null", [[], [null]], "[1][0]"],
    ] as const
  ).map(([name, wires, path]) =>
    invalidNodes(
      `wires that are ${name}`,
      `flows[1].wires${path}`,
      [tab, { id: "a", type: "b", wires }],
      [tab, { id: "a", type: "b", properties: { wires: wires as never } }],
    ),
  ),
  ...(
    [
      ["null", null, ""],
      ["a text", "x", ""],
      ["an array", [], ""],
      ["an object with a number", { user: "u", password: 1 }, ".password"],
      ["an object with null", { password: null }, ".password"],
      ["an object with an object", { password: { a: "b" } }, ".password"],
    ] as const
  ).flatMap(([name, credentials, path]) => [
    invalidNodes(`inline credentials that are ${name}`, `flows[0].credentials${path}`, [{ ...tab, credentials }]),
    invalidBody(`separate credentials of a node that are ${name}`, `credentials.t${path}`, {
      flows: [tab],
      credentials: { t: credentials },
    }),
  ]),
  ...[null, "x", [], 1].map((credentials) =>
    invalidBody(`credentials ${JSON.stringify(credentials)}`, "credentials", { flows: [tab], credentials }),
  ),
  ...[null, 1, {}].map(($) =>
    invalidBody(`credentials.$ ${JSON.stringify($)}`, "credentials.$", { flows: [tab], credentials: { $ } }),
  ),
  invalidBody(
    "separate and encrypted credentials together",
    "credentials",
    { flows: [tab], credentials: { $: "x", t: { user: "u" } } },
    { flows: [tab], credentials: { encrypted: "x", nodes: { t: { values: { user: "u" } } } } },
  ),
  ...[null, 1, true, {}, []].map((rev) => invalidBody(`rev ${JSON.stringify(rev)}`, "rev", { flows: [], rev })),
  invalidNodes(
    "objects nested too deep",
    `flows[0]${".a".repeat(32)}`,
    [{ ...tab, a: nested(32) }],
    [{ ...tab, properties: { a: nested(32) as never } }],
  ),
  invalidNodes("a parent group that is missing", "flows[1].g", [tab, group("a", "b")], [tab, groupNode("a", "b")]),
  invalidNodes("a group that is its own parent", "flows[1].g", [tab, group("a", "a")], [tab, groupNode("a", "a")]),
  invalidNodes(
    "a cycle of groups",
    "flows[1].g",
    [tab, group("a", "b"), group("b", "c"), group("c", "a")],
    [tab, groupNode("a", "b"), groupNode("b", "c"), groupNode("c", "a")],
  ),
  invalidNodes(
    "a subflow that contains itself",
    "flows[1].type",
    [subflow("a"), instance("i", "a", "a")],
    [subflowNode("a"), instanceNode("i", "a", "a")],
  ),
  invalidNodes(
    "subflows that contain each other",
    "flows[2].type",
    [subflow("a"), subflow("b"), instance("i", "b", "a"), instance("j", "a", "b")],
    [subflowNode("a"), subflowNode("b"), instanceNode("i", "b", "a"), instanceNode("j", "a", "b")],
  ),
  {
    ...invalidBody(
      "encrypted credentials without a secret",
      "credentials.$",
      { flows: [tab], credentials: { $: "x" } },
      { flows: [tab], credentials: { encrypted: "x" } },
    ),
    rejection: {
      status: 400,
      code: Code.InvalidArgument,
      reason: "invalid_credentials",
      message: /^credentials\.\$: /,
    },
  },
];

const plain = (status: number, reason: string, headers: Record<string, unknown> = {}): { rejection: Rejection } => ({
  rejection: { status, code: Code.Unknown, reason, headers },
});

const httpFaults: Row[] = [
  {
    name: "an unknown path",
    rest: [
      ["GET", "/nowhere"],
      ["GET", "/flows/"],
      ["POST", "/nowhere"],
      ["GET", "/auth"],
      ["GET", `/${"long/".repeat(1000)}`],
    ],
    ...plain(404, "not_found"),
  },
  ...(
    [
      ["/flows", ["DELETE", "PUT", "PATCH"], "GET, POST, HEAD, OPTIONS"],
      ["/auth/token", ["GET", "HEAD"], "POST, OPTIONS"],
      ["/auth/login", ["POST"], "GET, HEAD, OPTIONS"],
      ["/settings", ["POST"], "GET, HEAD, OPTIONS"],
    ] as const
  ).map(([path, methods, allow]): Row => ({
    name: `${methods.join(" or ")} of ${path}`,
    as: "good",
    rest: methods.filter((method) => method !== "HEAD").map((method): Rest => [method, path]),
    ...plain(405, "method_not_allowed", { allow }),
  })),
  {
    name: "a response in HTML only",
    as: "good",
    rest: [
      ["GET", "/flows", { accept: "text/html" }],
      ["GET", "/settings", { accept: "application/json;q=0" }],
      ["POST", "/flows", { ...json, ...v2, accept: "image/*" }, '{"flows":[]}'],
    ],
    ...plain(406, "not_acceptable"),
  },
  {
    name: "flows with another content type",
    as: "good",
    rest: [
      ["POST", "/flows", { "content-type": "text/plain" }, "[]"],
      ["POST", "/flows", form, "flows=[]"],
      ["POST", "/flows", {}, "[]"],
    ],
    ...plain(415, "unsupported_media_type"),
  },
  {
    name: "flows beyond the limit",
    as: "good",
    rest: [
      ["POST", "/flows", json, JSON.stringify([{ ...tab, label: "x".repeat(limit) }])],
      [
        "POST",
        "/flows",
        { ...json, "transfer-encoding": "chunked" },
        JSON.stringify([{ ...tab, label: "x".repeat(limit) }]),
      ],
    ],
    rpc: rpc(FlowsService.method.setFlows, { flows: [{ ...tab, label: "x".repeat(limit) }] }),
    rejection: {
      status: 413,
      code: Code.ResourceExhausted,
      reason: expect.stringMatching(/too_large$/),
      // Connect itself rejects it, without a reason.
      rpcReason: expect.any(String),
    },
  },
];

const tables = { login: login_, issuing, revoking, refused, reading, restarting, headerFaults, bodyFaults, httpFaults };

async function restAnswer(row: Row, [method, path, headers = {}, body]: Rest): Promise<Reply> {
  return send(service.url, method, path, {
    headers: { ...authorization(row.as ?? "nobody"), ...headers },
    ...(body !== undefined && { body }),
  });
}

/** Converts an RPC response to the form of REST. */
function toRest({ message }: { message: { $typeName: string } }, method: Row): unknown {
  switch (message.$typeName) {
    case "flowgate.v1.RevokeTokenResponse":
      return undefined;
    case "flowgate.v1.GetFlowsResponse": {
      const { flows, rev } = message as unknown as { flows: { id: string }[]; rev: string };
      return { flows, rev };
    }
    default:
      return restOf(message, method);
  }
}

function restOf(message: { $typeName: string }, { name }: Row): unknown {
  const schema = schemas.get(message.$typeName);
  if (schema === undefined) {
    throw new Error(`${name} got the response ${message.$typeName}`);
  }
  const value = toJson(schema, message as never) as { runtime?: { state: string } };
  return value.runtime === undefined
    ? value
    : {
        ...value,
        runtime: { ...value.runtime, state: value.runtime.state.replace("RUNTIME_STATE_", "").toLowerCase() },
      };
}

const schemas = new Map<string, DescMessage>(
  [...AuthService.methods, ...RuntimeService.methods, ...SettingsService.methods].map(({ output }) => [
    output.typeName,
    output,
  ]),
);

/** The expected REST response of a row, without headers. */
function replyTo(row: Row): { status: number; type: unknown; body: unknown } {
  if (!("rejection" in row)) {
    return { status: 200, type: row.response === undefined ? undefined : "application/json", body: row.response };
  }
  const { status, reason, message, challenge, isOAuth } = row.rejection;
  if (challenge !== undefined) {
    return { status, type: undefined, body: undefined };
  }
  const text = matching(message);
  return {
    status,
    type: "application/json",
    body: isOAuth === true ? { error: reason, error_description: text } : { code: reason, message: text },
  };
}

function headersOf(row: Row): Record<string, unknown> {
  if (!("rejection" in row)) {
    return row.headers ?? {};
  }
  const { headers = {}, challenge } = row.rejection;
  return challenge === undefined ? headers : { ...headers, "www-authenticate": challenge };
}

/** The expected RPC response of a row. */
function outcomeOf(row: Row): unknown {
  if (!("rejection" in row)) {
    return { response: row.response };
  }
  const { code, message } = row.rejection;
  const { "cache-control": _cacheControl, pragma: _pragma, ...metadata } = headersOf(row);
  return {
    code: Code[code],
    reason: "rpcReason" in row.rejection ? row.rejection.rpcReason : row.rejection.reason,
    message: matching(message),
    metadata: expect.objectContaining(metadata),
  };
}

function matching(message: string | RegExp | undefined): unknown {
  switch (typeof message) {
    case "string":
      return message;
    case "undefined":
      return expect.any(String);
    default:
      return expect.stringMatching(message);
  }
}

const rpcRows = rpcProtocolNames.flatMap((protocol) =>
  Object.entries(tables).flatMap(([table, rows]) =>
    rows.filter(({ rpc }) => rpc !== undefined).map((row) => ({ protocol, row, name: `${table}: ${row.name}` })),
  ),
);

const restRows = Object.entries(tables).flatMap(([table, rows]) =>
  rows.map((row) => ({ row, name: `${table}: ${row.name}` })),
);

test.for(restRows)("over REST: $name", async ({ row }) => {
  for (const rest of row.rest) {
    const reply = await restAnswer(row, rest);
    const { status, headers } = reply;
    const body = reply.body === "" ? undefined : reply.json();
    expect({ status, type: headers["content-type"], body }).toEqual(replyTo(row));
    expect(headers).toMatchObject(headersOf(row));
  }
});

test.for(rpcRows)("over $protocol: $name", async ({ protocol, row }) => {
  expect(readOutcome(await made(protocol, row), row)).toEqual(outcomeOf(row));
});

function readOutcome(outcome: Outcome<DescMessage>, row: Row): unknown {
  if (!("refused" in outcome)) {
    return { response: toRest(outcome, row) };
  }
  const { code, reason, message, metadata } = outcome.refused;
  return { code: Code[code], reason: reason ?? "none", message, metadata: Object.fromEntries(metadata) };
}

async function made(protocol: string, row: Row): Promise<Outcome<DescMessage>> {
  const transport = transports.get(protocol);
  if (transport === undefined || row.rpc === undefined) {
    throw new Error(`${row.name} can't be made over ${protocol}`);
  }
  return row.rpc(transport, authorization(row.as ?? "nobody"));
}

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
      const reply = await send(service.url, "POST", "/auth/token", { headers: form, body: encode(changes) });
      const { date: _date, "x-request-id": _requestId, ...headers } = reply.headers;
      bodies.add(JSON.stringify([reply.status, headers, reply.body]));
    }
    expect(bodies.size).toBe(1);
    expect(bodies.values().next().value).toMatch(/^\[400,.*\\"error\\":\\"invalid_grant\\"/);
  });

  test.for(rpcProtocolNames)("over %s too", async (protocol) => {
    const transport = transports.get(protocol) as Transport;
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
      statuses.push((await send(service.url, "POST", "/auth/token", { headers: form, body })).status);
    }
    expect(statuses).toEqual([400, 400, 400, 400, 400, 429]);
  });
});

test("a token is invalid after its revocation over any protocol", async () => {
  const ways: [string, (token: string) => Promise<unknown>][] = [
    ["form", (t) => service.send("POST", "/auth/revoke", { headers: { ...form, ...bearer(t) }, body: `token=${t}` })],
    [
      "JSON",
      (t) =>
        service.send("POST", "/auth/revoke", {
          headers: { ...json, ...bearer(t) },
          body: JSON.stringify({ token: t }),
        }),
    ],
    ...[...transports].map(([name, transport]): [string, (token: string) => Promise<unknown>] => [
      name,
      (token) => call(transport, AuthService.method.revokeToken, { token }, bearer(token)),
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

describe("calls are rejected before the body is read", () => {
  test.each([
    ["REST", "/flows", "application/json"],
    ["Connect", "/flowgate.v1.FlowsService/SetFlows", "application/proto"],
    ["gRPC-Web", "/flowgate.v1.FlowsService/SetFlows", "application/grpc-web+proto"],
  ])("over %s", async (_protocol, path, type) => {
    const socket = connect(service.port, "127.0.0.1");
    socket.write(`POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${type}\r\nContent-Length: 60000\r\n\r\n[`);
    const [head] = (await once(socket, "data")) as [Buffer];
    socket.destroy();
    expect(head.toString()).toMatch(
      type.includes("grpc") ? /^HTTP\/1\.1 200 [^]*grpc-status: ?16/i : /^HTTP\/1\.1 401 /,
    );
  });

  test("over gRPC", async () => {
    const session = connectHttp2(service.url);
    try {
      const stream = session.request({
        ":method": "POST",
        ":path": "/flowgate.v1.FlowsService/SetFlows",
        "content-type": "application/grpc+proto",
        te: "trailers",
      });
      stream.write(Buffer.from([0, 0, 0, 4, 0, 1]));
      const [headers] = (await once(stream, "response")) as [Record<string, string>];
      stream.resume();
      const status =
        headers["grpc-status"] ?? ((await once(stream, "trailers")) as [Record<string, string>])[0]["grpc-status"];
      expect(String(status)).toBe("16");
    } finally {
      session.destroy();
    }
  });
});

describe("revisions", () => {
  const deploy = (body: object, headers: Record<string, string> = {}) =>
    service.send("POST", "/flows", {
      headers: { ...json, ...v2, ...bearer(tokens.good), ...headers },
      body: JSON.stringify(body),
    });
  const active = async () =>
    (await service.send("GET", "/flows", { headers: { ...v2, ...bearer(tokens.good) } })).json() as {
      rev: string;
      flows: unknown[];
    };
  const auth = () => bearer(tokens.good);

  test("a revision that is not the active one is rejected, with the active one in the error", async () => {
    const { rev } = await active();
    for (const given of ["", "other", `${rev} `, rev.toUpperCase()]) {
      const reply = await deploy({ flows: [tab], rev: given });
      expect([reply.status, reply.json()]).toEqual([
        409,
        {
          active: expect.objectContaining({ rev }) as unknown,
          code: "version_mismatch",
          message: expect.stringContaining(rev),
        },
      ]);
      for (const [protocol, transport] of transports) {
        const outcome = await call(transport, FlowsService.method.setFlows, { flows: [tab], rev: given }, auth());
        expect({ protocol, ...outcome }).toMatchObject({
          protocol,
          refused: {
            code: Code.Aborted,
            reason: "version_mismatch",
            message: (reply.json() as { message: string }).message,
          },
        });
      }
    }
    expect(await active()).toEqual({ rev, flows: [] });
  });

  test("each accepted deployment has its own, over every protocol", async () => {
    const revs = new Set([(await active()).rev]);
    for (const [, transport] of transports) {
      const outcome = await call(
        transport,
        FlowsService.method.setFlows,
        { flows: [tab], rev: (await active()).rev },
        auth(),
      );
      if ("refused" in outcome) {
        throw new Error(outcome.refused.message);
      }
      expect(outcome.message.rev).toBe((await active()).rev);
      revs.add(outcome.message.rev);
    }
    const reply = await deploy({ flows: [tab], rev: (await active()).rev });
    expect([reply.status, reply.json()]).toEqual([200, { rev: (await active()).rev }]);
    revs.add((await active()).rev);
    const v1 = await deploy([tab], { "service-api-version": "v1" });
    expect([v1.status, v1.body, v1.headers["content-type"]]).toEqual([204, "", undefined]);
    revs.add((await active()).rev);
    const credentialsAlone = await deploy({ flows: [tab], credentials: { t: { user: "u" } } });
    expect(credentialsAlone.status).toBe(200);
    revs.add((await active()).rev);
    expect(revs.size).toBe(1 + transports.size + 3);
  });

  test("reload ignores the body, and keeps the revision", async () => {
    const { rev } = await active();
    const headers = { "service-deployment-type": "reload", ...bearer(tokens.good) };
    for (const [body, type] of [
      [undefined, {}],
      ["[", json],
      ["<x/>", { "content-type": "text/plain" }],
    ] as const) {
      const v1 = await service.send("POST", "/flows", { headers: { ...headers, ...type }, ...(body && { body }) });
      expect([v1.status, v1.body]).toEqual([204, ""]);
    }
    const reply = await service.send("POST", "/flows", { headers: { ...headers, ...v2 } });
    expect([reply.status, reply.json()]).toEqual([200, { rev }]);
    for (const [protocol, transport] of transports) {
      const outcome = await call(
        transport,
        FlowsService.method.setFlows,
        { deploymentType: DeploymentType.RELOAD, rev: "other", flows: [{}] },
        auth(),
      );
      expect({ protocol, ...outcome }).toMatchObject({
        protocol,
        message: { rev },
      });
    }
  });
});

test("HEAD and OPTIONS follow HTTP", async () => {
  const headers = bearer(tokens.good);
  const get = await service.send("GET", "/flows", { headers });
  const head = await service.send("HEAD", "/flows", { headers });
  expect([head.status, head.body, head.headers["content-length"], head.headers.etag]).toEqual([
    200,
    "",
    String(get.body.length),
    get.headers.etag,
  ]);
  const options = await service.send("OPTIONS", "/flows");
  expect([options.status, options.headers.allow]).toEqual([204, "GET, POST, HEAD, OPTIONS"]);
  const token = await service.send("HEAD", "/auth/token");
  expect([token.status, token.headers.allow]).toEqual([405, "POST, OPTIONS"]);
});

describe("without adminAuth", () => {
  let open: Service;
  beforeAll(async () => {
    open = await startService();
  });
  afterAll(() => open?.[Symbol.asyncDispose]());

  test("all clients have all permissions, and no token is issued", async () => {
    expect((await open.send("GET", "/auth/login")).json()).toEqual({});
    expect((await open.send("POST", "/flows", { headers: json, body: "[]" })).status).toBe(204);
    const settings = (await open.send("GET", "/settings")).json();
    expect(settings).not.toHaveProperty("user");
    const reply = await open.send("POST", "/auth/token", { headers: form, body: encode({}) });
    expect([reply.status, reply.json(), reply.headers["cache-control"]]).toEqual([
      400,
      { error: "invalid_request", error_description: expect.any(String) },
      "no-store",
    ]);
    const revoke = await open.send("POST", "/auth/revoke", { headers: form, body: "token=x" });
    expect([revoke.status, revoke.body]).toEqual([200, ""]);
  });

  test.for(rpcProtocolNames)("over %s too", async (protocol) => {
    const transport = rpcProtocols[protocol](open.url);
    expect(await call(transport, AuthService.method.getLogin, {})).toMatchObject({
      message: { type: "", prompts: [] },
    });
    expect(await call(transport, FlowsService.method.setFlows, { flows: [] })).toHaveProperty("message.rev");
    const { client_id: clientId, grant_type: grantType, ...others } = tokenParameters();
    expect(await call(transport, AuthService.method.issueToken, { ...others, clientId, grantType })).toMatchObject({
      refused: { code: Code.FailedPrecondition },
    });
  });

  test("GET of an RPC with side effects is rejected", async () => {
    const reply = await open.send("GET", "/flowgate.v1.FlowsService/SetFlows?message=%7B%7D&encoding=json&connect=v1");
    expect([reply.status, reply.headers.allow]).toEqual([405, "POST"]);
  });
});
