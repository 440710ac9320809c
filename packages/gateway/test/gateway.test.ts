import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { createFetchHandler } from "../src/adapters/fetch/index.ts";
import { createNodeHandler } from "../src/adapters/node/index.ts";
import { createGateway } from "../src/index.ts";
import { ItemSchema, StreamsService } from "./gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "./gen/gatewaytest/v1/things_pb.ts";
import { type RpcOptions } from "./adapters/rpc-servers.ts";
import { routes } from "./adapters/rpc-routes.ts";
import { collect } from "./serve-streams.ts";

test("routes are registered once for all gateways", () => {
  let calls = 0;
  const counted: RpcOptions["routes"] = (router) => {
    calls += 1;
    return routes(router);
  };
  createNodeHandler({ routes: counted });
  createFetchHandler({ routes: counted, protocols: ["rest"] });
  expect(createGateway({ routes: counted }).methods.length).toBeGreaterThan(5);
  expect(calls).toBe(1);
});

test("routes that register after they have returned are an error, instead of RPCs that do not exist", async () => {
  let registered: Promise<void> | undefined;
  createNodeHandler({
    routes: (router) => {
      registered = Promise.resolve().then(() => void routes(router));
    },
  });
  await expect(registered).rejects.toThrow(
    "the option routes has registered rpc gatewaytest.v1.ThingsService.EchoThing too late: " +
      "it must register all RPCs before it returns, without waiting",
  );
});

test("an option that is wrong is named", () => {
  const misspelt = { routes, protocols: ["gprc"] } as unknown as Parameters<typeof createGateway>[0];
  expect(() => createGateway(misspelt)).toThrow('the option protocols must be an array of "connect", "grpc"');
  expect(() => createGateway({ routes, requestPathPrefix: "api/" })).toThrow(
    "the option requestPathPrefix must be a path",
  );
});

test("a request is told when its call begins, in which format, and with which code it fails", async () => {
  const gateway = createGateway({ routes });
  const events: unknown[] = [];
  const send = (path: string, type: string, body: Uint8Array) =>
    gateway.handle({
      httpMethod: "POST",
      httpVersionMajor: 2,
      target: path,
      headers: { "content-type": type },
      hasBody: () => true,
      readBody: async () => body,
      async *streamBody() {
        yield body;
      },
      url: () => `http://gateway.test${path}`,
      contextValues: () => undefined,
      onAbort() {},
      begin: ({ name }, format) => void events.push([name, format]),
      fail: (code) => void events.push(code),
    });
  const service = `/${ThingsService.typeName}`;
  const json = new TextEncoder().encode('{"id": "a"}');
  await send(`${service}/OpenThing`, "application/json", json);
  await send(`${service}/OpenThing`, "application/proto", Uint8Array.of(0x0a, 1, 0x61));
  await send(`${service}/OpenThing`, "application/grpc+json", Uint8Array.of(0, 0, 0, 0, json.length, ...json));
  await send(`${service}/SendForm`, "application/json", new TextEncoder().encode('{"userName": "nobody"}'));
  await send(`${service}/SendForm`, "application/grpc", Uint8Array.of(7, 0, 0, 0, 0));
  await send(`${service}/SendForm`, "image/png", json);
  await send(`${service}/Nothing`, "application/grpc", json);
  expect(events).toEqual([
    ["OpenThing", "json"],
    ["OpenThing", "proto"],
    ["OpenThing", "json"],
    ["SendForm", "json"],
    Code.NotFound,
    ["SendForm", "proto"],
    Code.InvalidArgument,
    // The status is 415; the body has the code `unknown`, as Connect's clients read it.
    Code.InvalidArgument,
    Code.Unknown,
    Code.Unimplemented,
  ]);
});

test("a frozen message is compressed once for all streams", async () => {
  const item = Object.freeze(create(ItemSchema, { text: "again ".repeat(1000) }));
  const gateway = createGateway({
    routes: (router) =>
      router.service(StreamsService, {
        async *list() {
          yield item;
        },
      }),
  });
  const receive = async (): Promise<Uint8Array> => {
    const target = `/${StreamsService.typeName}/List`;
    const { body } = await gateway.handle({
      httpMethod: "POST",
      httpVersionMajor: 2,
      target,
      headers: { "content-type": "application/grpc", "grpc-accept-encoding": "gzip" },
      hasBody: () => true,
      readBody: async () => new Uint8Array(5),
      async *streamBody() {},
      url: () => `http://gateway.test${target}`,
      contextValues: () => undefined,
      onAbort() {},
    });
    const [first = new Uint8Array()] = await collect(body as AsyncIterable<Uint8Array>);
    return first;
  };
  const first = await receive();
  expect([first[0], first.length < 200]).toEqual([1, true]);
  expect(await receive()).toBe(first);
});
