import { type DescMethod, getOption } from "@bufbuild/protobuf";
import { ErrorInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";
import type { Transport } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";
import { access } from "../../../gen/flowgate/v1/access_pb.ts";
import { permissions, services } from "../../../src/services/api.ts";
import { type LocalIssuer, audience, issuerUrl, openIssuer } from "../../auth/local-issuer.ts";
import { bearer, json } from "../rest.ts";
import { rpcProtocols } from "../rpc.ts";
import { type Service, startService, withoutRuntime } from "../service.ts";
import { login, tokenParameters, user } from "../users.ts";
import { callRest, callRpc } from "./any-call.ts";

// The matrix of all operations and roles. The operations and their permissions are those of the contract. The gate is passed before the
// message of a protocol is read: each role calls over REST and gRPC, and nobody over all protocols.

const viewer = [
  "flows.read",
  "revisions.read",
  "runtime.read",
  "modules.read",
  "settings.read",
  "tokens.read",
  "audit.read",
  "events.read",
  "proposals.read",
  "metrics.read",
  "library.read",
];

/** What each role permits, in addition to public operations and those for everyone with a token. */
const expected: Readonly<Record<string, readonly string[]>> = {
  viewer,
  deployer: [...viewer, "flows.write", "flows.propose", "revisions.write", "library.write"],
  operator: [...viewer, "debug.read", "logs.read", "context.read", "context.write", "runtime.write", "runtime.inject"],
  admin: [...permissions],
  // Configured.
  "release-manager": [
    ...viewer,
    "flows.write",
    "flows.propose",
    "revisions.write",
    "library.write",
    "audit.read",
    "runtime.write",
  ],
};

const methods = services.flatMap((service) => service.methods);
const operations = methods.map((method) => ({ method, access: getOption(method, access).rule }));

let issuer: LocalIssuer;
let service: Service;
let tokens: Record<string, string>;

beforeAll(async () => {
  issuer = await openIssuer();
  const roles = Object.keys(expected);
  service = await startService({
    config: {
      ...withoutRuntime,
      roles: { "release-manager": ["deployer", "runtime.write"] },
      adminAuth: {
        users: roles.map((role) => user(role, role)),
        issuers: [
          {
            name: "local",
            issuer: issuerUrl,
            audience,
            jwksUrl: issuer.jwksUrl,
            algorithms: ["ES256"],
            rules: roles.map((role) => ({ claims: { groups: role }, permissions: role })),
          },
        ],
      },
    },
  });
  tokens = Object.fromEntries(
    await Promise.all(
      roles.map(async (role) => [role, await login(service, { username: role, scope: role })] as const),
    ),
  );
});
afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
  await issuer?.[Symbol.asyncDispose]();
});

const transports: Record<string, Transport> = {};

type Call = (method: DescMethod, headers: Readonly<Record<string, string>>) => Promise<string>;

/** Return "permitted", whatever else the outcome is, or the reason why the caller may not call. */
const protocols: Readonly<Record<string, Call>> = {
  async REST(method, headers) {
    const response = await callRest(service.url, method, headers);
    const challenge = response.headers.get("www-authenticate");
    return response.status === 401 ? (/error="(\w+)"/.exec(challenge ?? "")?.[1] ?? "no_token") : "permitted";
  },
  ...Object.fromEntries(
    Object.entries(rpcProtocols).map(([name, createTransport]) => [
      name,
      (async (method, headers) => {
        transports[name] ??= createTransport(service.url);
        const error = await callRpc(transports[name], method, headers);
        const reason = error?.findDetails(ErrorInfoSchema)[0]?.reason ?? "";
        return ["no_token", "invalid_token", "insufficient_scope"].includes(reason) ? reason : "permitted";
      }) satisfies Call,
    ]),
  ),
};

const callers = [
  ...Object.keys(expected).flatMap((caller) => ["REST", "gRPC"].map((protocol) => ({ caller, protocol }))),
  ...Object.keys(protocols).map((protocol) => ({ caller: "nobody", protocol })),
];

test.for(callers)("$caller may call what the role permits, over $protocol", async ({ caller, protocol }) => {
  const headers = caller === "nobody" ? {} : bearer(tokens[caller] ?? "");
  const outcomes: string[] = [];
  const wanted: string[] = [];
  for (const { method, access } of operations) {
    const name = `${method.parent.name}.${method.name}`;
    outcomes.push(`${name}: ${await protocols[protocol]?.(method, headers)}`);
    const isPermitted =
      access.case === "public" ||
      (caller !== "nobody" &&
        (access.case === "authenticated" || (expected[caller] ?? []).includes(String(access.value))));
    const refusal = caller === "nobody" ? "no_token" : "insufficient_scope";
    wanted.push(`${name}: ${isPermitted ? "permitted" : refusal}`);
  }
  expect(outcomes).toEqual(wanted);
  expect(outcomes.length).toBeGreaterThan(35);
});

test.for(Object.keys(expected))("%s has the same permissions as a user, a scope and a claim", async (role) => {
  const identify = async (token: string) =>
    ((await service.send("GET", "/auth/identity", { headers: bearer(token) })).json() as { permissions: string[] })
      .permissions;
  const { scope: _, ...withoutScope } = tokenParameters({ username: role });
  const issued = await service.send("POST", "/auth/token", { headers: json, body: JSON.stringify(withoutScope) });
  const asUser = await identify((issued.json() as { access_token: string }).access_token);
  expect(await identify(tokens[role] ?? "")).toEqual(asUser);
  expect((await identify(await login(service, { username: "admin", scope: role }))).toSorted()).toEqual(
    asUser.toSorted(),
  );
  expect(await identify(await issuer.sign({ groups: [role] }))).toEqual(asUser);
  const body = JSON.stringify({ name: role, scope: role });
  const admin = bearer(tokens["admin"] ?? "");
  const created = (await service.send("POST", "/tokens", { headers: { ...admin, ...json }, body })).json();
  expect(await identify((created as { accessToken: string }).accessToken)).toEqual(asUser);
});

test("every permission of the contract is known to the roles", () => {
  const required = operations.flatMap(({ access }) => (access.case === "permission" ? [access.value] : []));
  expect(required.filter((name) => !expected["admin"]?.includes(name))).toEqual([]);
});
