import type { DescService } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type HandlerContext,
  createClient,
  createContextValues,
  createRouterTransport,
} from "@connectrpc/connect";
import { HealthService } from "./ungated-service.ts";
import { expect, test } from "vitest";
import { UnauthorizedSchema } from "../../gen/flowgate/v1/access_pb.ts";
import { AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { SettingsService } from "../../gen/flowgate/v1/settings_pb.ts";
import { compileAccess, permissionsOf } from "../../src/auth/permissions.ts";
import type { AdminAuth } from "../../src/auth/accounts.ts";
import { createLimiter } from "../../src/auth/limiter.ts";
import { createMemoryAttempts } from "../../src/store/login-attempts.ts";
import { Authenticator } from "../../src/auth/authenticator.ts";
import { createGate } from "../../src/auth/gate.ts";
import { type Principal, peerKey, principalKey } from "../../src/auth/caller.ts";
import { toFailure } from "../../src/server/pipeline/errors.ts";
import { createLog } from "../../src/telemetry/log.ts";
import { collectEvents, origin } from "./collect-events.ts";
import { createMemoryTokens } from "./memory-tokens.ts";
import { adminAuth, known } from "./users.ts";

const rules = compileAccess([AuthService, FlowsService, SettingsService]);
const users = adminAuth({ ada: ["*"], bob: ["read"] });
const log = createLog({ level: "silent" });
const limiter = createLimiter(createMemoryAttempts());

/** Clients of services that record the last caller, behind the gate. */
function serve(configured: AdminAuth | undefined) {
  const { audit, uses, events } = collectEvents();
  const authenticator = new Authenticator({
    adminAuth: configured,
    tokens: createMemoryTokens(),
    limiter,
    permissions: known,
    audit,
    uses,
  });
  const callers: Principal[] = [];
  const remember = (_request: unknown, { values }: HandlerContext): object => {
    callers.push(values.get(principalKey));
    return {};
  };
  const gate = createGate(authenticator, rules, audit);
  const requestGate = async (context: HandlerContext): Promise<void> => {
    try {
      await gate(context);
    } catch (error) {
      throw toFailure(error, log, context);
    }
  };
  const transport = createRouterTransport(
    ({ service }) => {
      service(AuthService, { getLogin: remember, revokeToken: remember });
      service(FlowsService, { getFlows: remember, setFlows: remember });
      service(SettingsService, { getSettings: remember });
    },
    { router: { requestGate } },
  );
  return {
    callers,
    events,
    auth: createClient(AuthService, transport),
    flows: createClient(FlowsService, transport),
    bearer: async (username: string, scope: string): Promise<{ headers: { authorization: string } }> => {
      const { accessToken } = await authenticator.issueToken(
        { clientId: "service-admin", grantType: "password", scope, username, password: `${username}-secret` },
        { origin, authorization: null },
      );
      return { headers: { authorization: `Bearer ${accessToken}` } };
    },
  };
}

async function rejectionOf(
  call: Promise<unknown>,
): Promise<{ code: Code; challenges: string[]; header: string | null }> {
  const error = await call.then(
    () => new Error("the call was accepted"),
    (error: unknown) => error,
  );
  if (!(error instanceof ConnectError)) {
    throw error;
  }
  return {
    code: error.code,
    challenges: error.findDetails(UnauthorizedSchema).map(({ challenge }) => challenge),
    header: error.metadata.get("www-authenticate"),
  };
}

const rejectedWith = (code: Code, challenge: string) => ({ code, challenges: [challenge], header: challenge });
const noToken = rejectedWith(Code.Unauthenticated, 'Bearer realm="flowgate"');
const invalidToken = rejectedWith(Code.Unauthenticated, 'Bearer realm="flowgate", error="invalid_token"');
const insufficientScope = rejectedWith(
  Code.PermissionDenied,
  'Bearer realm="flowgate", error="insufficient_scope", scope="flows.write"',
);
const badToken = { headers: { authorization: "Bearer nonsense" } };

test("collects the permissions of the services", () => {
  expect(permissionsOf(rules)).toEqual(known);
});

test("gives all clients all permissions without adminAuth", async () => {
  const { flows, auth, callers } = serve(undefined);
  await flows.setFlows({});
  await flows.getFlows({}, badToken);
  await auth.revokeToken({});
  expect(callers).toEqual(Array.from({ length: 3 }, () => ({ username: undefined, permissions: ["*"] })));
});

test("allows public methods with any token", async () => {
  const { auth, callers } = serve(users);
  await auth.getLogin({});
  await auth.getLogin({}, badToken);
  expect(callers).toHaveLength(2);
});

test("requires a token", async () => {
  const { flows, auth, callers } = serve(users);
  expect(await rejectionOf(flows.getFlows({}))).toEqual(noToken);
  expect(await rejectionOf(auth.revokeToken({}))).toEqual(noToken);
  expect(callers).toEqual([]);
});

test("rejects an invalid token, even if none is required", async () => {
  const { flows, auth, callers } = serve({ ...users, default: { permissions: ["*"] } });
  expect(await rejectionOf(flows.getFlows({}, badToken))).toEqual(invalidToken);
  expect(await rejectionOf(auth.revokeToken({}, badToken))).toEqual(invalidToken);
  expect(callers).toEqual([]);
});

test("allows a token only what both its scope and its user include", async () => {
  const { flows, auth, callers, bearer } = serve(users);
  const all = await bearer("ada", "*");
  await flows.setFlows({}, all);
  const reads = await bearer("ada", "read");
  await flows.getFlows({}, reads);
  await auth.revokeToken({}, reads);
  expect(await rejectionOf(flows.setFlows({}, reads))).toEqual(insufficientScope);
  expect(await rejectionOf(flows.setFlows({}, await bearer("bob", "read")))).toEqual(insufficientScope);
  expect(callers).toEqual([
    { username: "ada", token: { id: expect.any(String), name: undefined }, permissions: ["*"] },
    { username: "ada", token: { id: expect.any(String), name: undefined }, permissions: ["read"] },
    { username: "ada", token: { id: expect.any(String), name: undefined }, permissions: ["read"] },
  ]);
});

test("allows a request without a token only the default permissions", async () => {
  const { flows, auth, callers } = serve({ ...users, default: { permissions: ["read"] } });
  await flows.getFlows({});
  expect(await rejectionOf(flows.setFlows({}))).toEqual(noToken);
  expect(await rejectionOf(auth.revokeToken({}))).toEqual(noToken);
  expect(callers).toEqual([{ username: undefined, permissions: ["read"] }]);
});

function gateOf(configured: AdminAuth) {
  return createGate(
    new Authenticator({
      adminAuth: configured,
      tokens: createMemoryTokens(),
      limiter,
      permissions: known,
      ...collectEvents(),
    }),
    rules,
    collectEvents().audit,
  );
}

/** A call whose headers throw when they are read. */
function contextOf(
  service: DescService,
  method: DescService["methods"][number] | undefined,
  url: string,
): HandlerContext {
  return {
    service,
    method,
    url,
    values: createContextValues(),
    get requestHeader(): Headers {
      throw new Error("the headers were touched");
    },
  } as unknown as HandlerContext;
}

test("returns synchronously for a public method, without reading the headers", () => {
  const context = contextOf(AuthService, AuthService.method.getLogin, "/auth/login");
  expect(gateOf(users)(context)).toBeUndefined();
});

test.each(["/flows?access_token=x", "/flows?a=b&access_token=", "/flows?access%5Ftoken=x"])(
  "rejects a token in the URL %s",
  (url) => {
    const context = contextOf(FlowsService, FlowsService.method.getFlows, url);
    expect(() => gateOf({ ...users, default: { permissions: ["*"] } })(context)).toThrow(
      "An access token must be in the Authorization header, not in the URL.",
    );
  },
);

const reader = { id: "spiffe://example.org/reader", permissions: ["read"] };

test.each<[message: string, path: string, identity: string | undefined, authorization: string | null]>([
  [
    "This requires a workload identity with permission: call with a SPIFFE ID that has a rule in the option identity.",
    "/flows",
    undefined,
    null,
  ],
  [
    "The workload, according to its rule in the option identity, lacks the permission flows.write.",
    "/flows",
    "spiffe://example.org/reader",
    null,
  ],
  [
    "This service issues no access tokens: omit Authorization, and call as a workload with a SPIFFE ID.",
    "/flows",
    "spiffe://example.org/reader",
    "Bearer x",
  ],
  ["This service issues no access tokens: remove access_token from the URL.", "/flows?access_token=x", undefined, null],
])("does not mention tokens if only workloads can authenticate: %s", (message, url, identity, authorization) => {
  const gate = createGate(
    new Authenticator({
      adminAuth: undefined,
      identities: [reader],
      tokens: createMemoryTokens(),
      limiter,
      permissions: known,
      ...collectEvents(),
    }),
    rules,
    collectEvents().audit,
  );
  const context = contextOf(FlowsService, FlowsService.method.setFlows, url);
  context.values.set(peerKey, { address: "", requestId: "", authorization, workload: () => identity });
  expect(() => gate(context)).toThrow(message);
});

test("does not mention a token for missing permissions of a workload, even if there are users", () => {
  const gate = createGate(
    new Authenticator({
      adminAuth: users,
      identities: [reader],
      tokens: createMemoryTokens(),
      limiter,
      permissions: known,
      ...collectEvents(),
    }),
    rules,
    collectEvents().audit,
  );
  const context = contextOf(FlowsService, FlowsService.method.setFlows, "/flows");
  context.values.set(peerKey, { address: "", requestId: "", authorization: null, workload: () => reader.id });
  expect(() => gate(context)).toThrow(
    "The workload, according to its rule in the option identity, lacks the permission flows.write.",
  );
});

test("throws if a method does not declare who may call it", () => {
  expect(() => compileAccess([HealthService])).toThrow(
    "example.HealthService.Check has no access rule: set the option (flowgate.v1.access)",
  );
});

test("rejects a method without an access rule", () => {
  const gate = createGate(
    new Authenticator({
      adminAuth: undefined,
      tokens: createMemoryTokens(),
      limiter,
      permissions: known,
      ...collectEvents(),
    }),
    compileAccess([AuthService]),
    collectEvents().audit,
  );
  expect(() => gate(contextOf(FlowsService, FlowsService.method.getFlows, "/flows"))).toThrow(
    "flowgate.v1.FlowsService.GetFlows is served, but the gate has no access rule for it",
  );
});

test("records calls of authenticated users that lack the permission, and no others", async () => {
  const { flows, events, bearer } = serve(users);
  const headers = await bearer("bob", "read");
  await flows.getFlows({}, headers);
  await rejectionOf(flows.setFlows({}, headers));
  await rejectionOf(flows.setFlows({}, badToken));
  await rejectionOf(flows.setFlows({}));
  expect(events).toEqual([
    {
      kind: "permission_denied",
      origin: {
        by: "bob",
        token: { id: expect.any(String), name: undefined },
        address: "",
        protocol: expect.any(String),
        requestId: "",
      },
      subject: "flowgate.v1.FlowsService.SetFlows",
      detail: "flows.write",
    },
  ]);
});
