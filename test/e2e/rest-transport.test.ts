import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createRestTransport } from "@flowgate/gateway/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AuditService } from "../../gen/flowgate/v1/audit_pb.ts";
import { UnauthorizedSchema } from "../../gen/flowgate/v1/access_pb.ts";
import { AuthService, TokenErrorReason, TokenErrorSchema } from "../../gen/flowgate/v1/auth_pb.ts";
import { DeploymentErrorReason, DeploymentErrorSchema, FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { SettingsService } from "../../gen/flowgate/v1/settings_pb.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";
import { passwordOf, user } from "./users.ts";

// The generated clients over REST.

let service: Service;
beforeAll(async () => {
  service = await startService({ config: { ...withoutRuntime, adminAuth: { users: [user("admin", "*")] } } });
});
afterAll(() => service?.[Symbol.asyncDispose]());

async function open() {
  const anonymous = createRestTransport({ baseUrl: service.url });
  const { accessToken } = await createClient(AuthService, anonymous).issueToken({
    clientId: "service-admin",
    grantType: "password",
    username: "admin",
    password: passwordOf("admin"),
  });
  return createRestTransport({
    baseUrl: service.url,
    interceptors: [
      (next) => (request) => {
        request.header.set("authorization", `Bearer ${accessToken}`);
        return next(request);
      },
    ],
  });
}

async function errorOf(call: Promise<unknown>): Promise<ConnectError> {
  return call.then(
    () => {
      throw new Error("the call did not fail");
    },
    (error: unknown) => ConnectError.from(error),
  );
}

test("flows are deployed and returned, with their revision", async () => {
  const flows = createClient(FlowsService, await open());
  const before = await flows.getFlows({});
  const nodes = [{ id: "t", type: "tab", label: "Flow 1", properties: { env: [{ a: 1.5 }] } }];
  const { rev, outcome } = await flows.setFlows({ flows: nodes, rev: before.rev });
  expect(outcome).toBeGreaterThan(0);
  const after = await flows.getFlows({});
  expect([after.rev, after.flows]).toMatchObject([rev, nodes]);
  const flow = await flows.getFlow({ id: "t" });
  expect(flow).toMatchObject({ label: "Flow 1", rev });
  expect(await flows.planFlows({ flows: [], rev })).toBeDefined();

  const error = await errorOf(flows.setFlows({ flows: [], rev: before.rev }));
  expect(error.code).toBe(Code.Aborted);
  expect(error.findDetails(DeploymentErrorSchema)).toMatchObject([
    { code: DeploymentErrorReason.VERSION_MISMATCH, active: { rev } },
  ]);
});

test("errors have their details", async () => {
  const anonymous = createRestTransport({ baseUrl: service.url });
  const unauthorized = await errorOf(createClient(FlowsService, anonymous).getFlows({}));
  expect(unauthorized.code).toBe(Code.Unauthenticated);
  expect(unauthorized.findDetails(UnauthorizedSchema)).toHaveLength(1);
  const token = await errorOf(createClient(AuthService, anonymous).issueToken({ grantType: "password" }));
  expect(token.findDetails(TokenErrorSchema)).toMatchObject([{ error: TokenErrorReason.INVALID_REQUEST }]);
});

test("lists and streams are read", async () => {
  const transport = await open();
  expect(await createClient(SettingsService, transport).getSettings({})).toHaveProperty("version");
  const audit = createClient(AuditService, transport);
  const { entries } = await audit.listAuditEntries({});
  const exported: unknown[] = [];
  for await (const entry of audit.exportAudit({})) {
    exported.push(entry);
  }
  expect(exported.length).toBeGreaterThanOrEqual(entries.length);
});
