import { createClient, type ConnectRouter } from "@connectrpc/connect";
import { fastifyConnectPlugin } from "@connectrpc/connect-fastify";
import { createConnectTransport } from "@connectrpc/connect-node";
import { fastify } from "fastify";
import { expect, test } from "vitest";
import { ThingsService } from "../../gen/transcodingtest/v1/things_pb.ts";
import { fastifyTranscodingPlugin } from "../../src/transcoding/index.ts";

test("the same routes and options serve fastifyConnectPlugin and fastifyTranscodingPlugin of one Fastify", async () => {
  const calls: string[] = [];
  const options = {
    routes: (router: ConnectRouter) => {
      router.rpc(ThingsService.method.sendForm, ({ userName }, { protocolName }) => {
        calls.push(`${protocolName} ${userName}`);
        return { userName: userName.toUpperCase() };
      });
    },
    requestGate: () => void calls.push("gate"),
  };
  const app = fastify({ forceCloseConnections: true });
  app.get("/own", () => "own");
  await app.register(fastifyConnectPlugin, options);
  await app.register(fastifyTranscodingPlugin, options);
  const baseUrl = await app.listen({ host: "127.0.0.1", port: 0 });

  const client = createClient(ThingsService, createConnectTransport({ baseUrl, httpVersion: "1.1" }));
  expect(await client.sendForm({ userName: "rpc" })).toMatchObject({ userName: "RPC" });
  const reply = await fetch(`${baseUrl}/things/form`, {
    method: "POST",
    body: new URLSearchParams({ user_name: "rest" }),
  });
  expect(await reply.json()).toEqual({ userName: "REST" });
  expect(await (await fetch(`${baseUrl}/own`)).text()).toBe("own");
  expect(calls).toEqual(["gate", "connect rpc", "gate", "http rest"]);
  await app.close();
});
