import { createClient, createRouterTransport } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { RuntimeState, SettingsService } from "../../gen/flowgate/v1/settings_pb.ts";
import { type Principal, principalKey } from "../../src/auth/caller.ts";
import { builtInRoles, type Roles } from "../../src/auth/permissions.ts";
import type { RuntimeStatus } from "@flowgate/runtime";
import { settingsService } from "../../src/services/settings.ts";

test("the settings are those of the runtime and the caller at each call", async () => {
  const running = { name: "none", version: "0", state: "running", httpPort: 1, message: undefined } as const;
  let status: RuntimeStatus = running;
  const ada = { username: "ada", permissions: ["*"] };
  let caller: Principal = ada;
  const authenticator: { roles: Roles | undefined } = { roles: undefined };
  const runtime = { status: () => ({ ...status }) };
  const service = settingsService({ version: "1", runtime, authenticator, cluster: undefined });
  const transport = createRouterTransport((router) => router.service(SettingsService, service), {
    router: {
      interceptors: [
        (next) => (request) => {
          request.contextValues.set(principalKey, caller);
          return next(request);
        },
      ],
    },
  });
  const { getSettings } = createClient(SettingsService, transport);
  const read = async () => {
    const { runtime, user } = await getSettings({});
    return [runtime?.state, runtime?.httpPort, runtime?.message, user?.username];
  };

  const first = [RuntimeState.RUNNING, 1, undefined, "ada"];
  expect([await read(), await read()]).toEqual([first, first]);
  status = { ...running, httpPort: 2 };
  expect(await read()).toEqual([RuntimeState.RUNNING, 2, undefined, "ada"]);
  caller = { username: "bob", permissions: [] };
  expect(await read()).toEqual([RuntimeState.RUNNING, 2, undefined, "bob"]);
  status = { ...running, state: "failed", message: "why" };
  expect(await read()).toEqual([RuntimeState.FAILED, 1, "why", "bob"]);
  caller = ada;
  expect(await read()).toEqual([RuntimeState.FAILED, 1, "why", "ada"]);
  const readRoles = async () => (await getSettings({})).roles.map(({ name, permissions }) => [name, ...permissions]);
  expect(await readRoles()).toEqual([]);
  authenticator.roles = new Map([...builtInRoles, ["viewer", ["flows.read"]], ["none", []]]);
  expect(await readRoles()).toEqual([
    ["viewer", "flows.read"],
    ["deployer", "read", "flows.write", "flows.propose", "revisions.write", "library.write"],
    expect.arrayContaining(["operator"]),
    ["admin", "*"],
    ["none"],
  ]);
});
