import { createServer } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import { Code, ConnectError, type ConnectRouter, createClient, type Transport } from "@connectrpc/connect";
import { fastifyConnectPlugin } from "@connectrpc/connect-fastify";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { fastifyGatewayPlugin } from "@flowgate/gateway/fastify";
import { ErrorInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";
import { fastify } from "fastify";
import type { AddressInfo, Server } from "node:net";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { type Flowgate, type FlowgateOptions, openFlowgate } from "../../src/app/flowgate.ts";
import { OptionsError, parseOptions, type OptionsInput } from "../../src/options/parse.ts";
import { passwordOf, tokenParameters, user } from "../e2e/users.ts";
import { createFolder } from "../store/builders.ts";

const ada = user("ada", "*");

function optionsOf(dataDir: string, more: OptionsInput = {}): FlowgateOptions {
  const input = { dataDir, runtime: { mode: "none" }, log: { level: "silent" }, adminAuth: { users: [ada] }, ...more };
  return { ...parseOptions(input as OptionsInput), listen: false };
}

type Mounted = AsyncDisposable & { readonly url: string; readonly transport: Transport };

async function listen(server: Server, http2 = false): Promise<Mounted> {
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    transport: http2
      ? createGrpcTransport({ baseUrl: url })
      : createConnectTransport({ baseUrl: url, httpVersion: "1.1" }),
    async [Symbol.asyncDispose]() {
      if ("closeAllConnections" in server) {
        (server as ReturnType<typeof createServer>).closeAllConnections();
      }
      server.close();
    },
  };
}

const mounts: readonly (readonly [name: string, open: (flowgate: Flowgate) => Promise<Mounted>])[] = [
  [
    "fastifyGatewayPlugin",
    async ({ routes, contextValues }) => {
      const app = fastify({ forceCloseConnections: true });
      app.get("/about", () => "the program's own route");
      await app.register(fastifyGatewayPlugin, { routes, contextValues });
      const url = await app.listen({ host: "127.0.0.1", port: 0 });
      const transport = createConnectTransport({ baseUrl: url, httpVersion: "1.1" });
      return { url, transport, [Symbol.asyncDispose]: () => app.close() };
    },
  ],
  [
    "fastifyConnectPlugin",
    async ({ routes, contextValues }) => {
      const app = fastify({ forceCloseConnections: true });
      await app.register(fastifyConnectPlugin, { routes, contextValues });
      const url = await app.listen({ host: "127.0.0.1", port: 0 });
      const transport = createConnectTransport({ baseUrl: url, httpVersion: "1.1" });
      return { url, transport, [Symbol.asyncDispose]: () => app.close() };
    },
  ],
  ["the handler on node:http", ({ createHandler }) => listen(createServer(createHandler()))],
  [
    "the handler on node:http2",
    ({ createHandler }) => listen(createHttp2Server().on("stream", createHandler().onStream), true),
  ],
];

async function failureOf(call: Promise<unknown>): Promise<[Code, string | undefined]> {
  const error = await call.then(
    () => expect.unreachable(),
    (thrown: unknown) => ConnectError.from(thrown),
  );
  return [error.code, error.findDetails(ErrorInfoSchema)[0]?.reason];
}

describe.each(mounts)("mounted by %s", (_, mount) => {
  test("the API authenticates and authorizes each call, and deploys", async () => {
    await using folder = await createFolder();
    await using gateway = await openFlowgate(optionsOf(folder.path));
    expect([gateway.url, gateway.docsUrl, gateway.socketPath]).toEqual(["", undefined, undefined]);
    await using mounted = await mount(gateway);
    const flows = createClient(FlowsService, mounted.transport);
    const auth = createClient(AuthService, mounted.transport);
    expect(await failureOf(flows.getFlows({}))).toEqual([Code.Unauthenticated, "no_token"]);
    const login = { clientId: "service-admin", grantType: "password", username: "ada" };
    expect(await failureOf(auth.issueToken({ ...login, password: "wrong", scope: "*" }))).toEqual([
      Code.Unauthenticated,
      "invalid_grant",
    ]);
    const { accessToken } = await auth.issueToken({ ...login, password: passwordOf("ada"), scope: "flows.read" });
    const headers = { authorization: `Bearer ${accessToken}` };
    const { rev } = await flows.getFlows({}, { headers });
    expect(await failureOf(flows.setFlows({ flows: [] }, { headers }))).toEqual([
      Code.PermissionDenied,
      "insufficient_scope",
    ]);
    const { accessToken: full } = await auth.issueToken({ ...login, password: passwordOf("ada"), scope: "*" });
    const authorized = { headers: { authorization: `Bearer ${full}` } };
    const tab = { id: "greetings", type: "tab", label: "Greetings" };
    const deployed = await flows.setFlows({ flows: [tab] }, authorized);
    expect(deployed.rev).not.toBe(rev);
    expect((await flows.getFlows({}, authorized)).flows).toMatchObject([{ id: "greetings" }]);
    expect(await failureOf(flows.setFlows({ flows: [tab, tab] }, authorized))).toEqual([
      Code.InvalidArgument,
      "invalid_flows",
    ]);
  });
});

test("the plugin and the handler serve REST as on a port of the gateway", async () => {
  await using folder = await createFolder();
  await using gateway = await openFlowgate(optionsOf(folder.path));
  for (const [, mount] of mounts.filter(([name]) => /Gateway|http$/.test(name))) {
    await using mounted = await mount(gateway);
    const refused = await fetch(`${mounted.url}/flows`);
    expect([refused.status, refused.headers.get("www-authenticate")]).toEqual([401, expect.stringContaining("Bearer")]);
    expect((await fetch(`${mounted.url}/auth/login`)).status).toBe(200);
    expect((await fetch(`${mounted.url}/nothing`)).status).toBe(404);
  }
});

test("a client's failed logins lock out no other client", async () => {
  await using folder = await createFolder();
  await using gateway = await openFlowgate(optionsOf(folder.path));
  const { routes, contextValues } = gateway;
  const app = fastify({ forceCloseConnections: true, trustProxy: true });
  await app.register(fastifyGatewayPlugin, { routes, contextValues });
  await using _ = { [Symbol.asyncDispose]: () => app.close() };
  const url = await app.listen({ host: "127.0.0.1", port: 0 });
  const login = async (address: string, username: string, password: string): Promise<number> => {
    const body = new URLSearchParams(tokenParameters({ username, password }));
    const headers = { "x-forwarded-for": address };
    return (await fetch(`${url}/auth/token`, { method: "POST", headers, body })).status;
  };
  const statuses: number[] = [];
  for (let attempt = 0; attempt < 60 && statuses.at(-1) !== 429; attempt++) {
    statuses.push(await login("192.0.2.1", `nobody${attempt}`, "wrong"));
  }
  expect(statuses.at(-1)).toBe(429);
  expect(await login("192.0.2.2", "ada", passwordOf("ada"))).toBe(200);
});

test("an API without authentication is mounted only if the options say so", async () => {
  await using folder = await createFolder();
  const open = { adminAuth: undefined } as unknown as OptionsInput;
  {
    await using gateway = await openFlowgate(optionsOf(folder.path, open));
    const router = { handlers: [] } as unknown as ConnectRouter;
    expect(() => gateway.routes(router)).toThrow("set adminAuth, or allowUnauthenticated");
    expect(() => gateway.createHandler()).toThrow("set adminAuth, or allowUnauthenticated");
  }
  await using gateway = await openFlowgate(optionsOf(folder.path, { ...open, allowUnauthenticated: true }));
  await using mounted = await listen(createServer(gateway.createHandler()));
  expect((await fetch(`${mounted.url}/flows`)).status).toBe(200);
});

test("listen must be a boolean", async () => {
  const options = { listen: "no" } as unknown as FlowgateOptions;
  await expect(openFlowgate(options)).rejects.toThrow(OptionsError);
});
