import { create } from "@bufbuild/protobuf";
import { once } from "node:events";
import { createServer, get, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { text } from "node:stream/consumers";
import { setImmediate } from "node:timers/promises";
import { fastify } from "fastify";
import { expect, test } from "vitest";
import { fastifyGatewayPlugin } from "../../src/adapters/fastify/index.ts";
import { createNodeHandler } from "../../src/adapters/node/index.ts";
import type { GatewayOptions } from "../../src/index.ts";
import { ItemSchema, StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";

/** Some are encoded once for all streams, some are too large to be copied, and some have characters of several bytes. */
const items = ["a", "ü€😀", "b".repeat(20_000), "ü".repeat(20_000), ""].flatMap((each) => [
  create(ItemSchema, { text: each }),
  Object.freeze(create(ItemSchema, { text: each })),
]);

const routes: GatewayOptions["routes"] = (router) =>
  router.service(StreamsService, {
    async *list() {
      yield* items;
    },
    async *download() {
      const data = new Uint8Array(2);
      for (const character of "ab") {
        yield { data: data.fill(character.charCodeAt(0)) };
        await setImmediate();
      }
    },
  });

async function serve(prepare: (response: ServerResponse) => void = () => {}) {
  const handler = createNodeHandler({ routes });
  const server = createServer((request, response) => {
    prepare(response);
    handler(request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

const path = "/streams/s/items";
const expected = items.map((item) => (item.text === "" ? "{}\n" : `{"text":"${item.text}"}\n`)).join("");

async function read(port: number, target = path): Promise<string> {
  const [response] = (await once(get({ port, path: target, agent: false }), "response")) as [IncomingMessage];
  return text(response);
}

test("the chunks of a stream have the length of their bytes", async () => {
  await using server = await serve();
  expect(await read(server.port)).toBe(expected);
});

test("a stream over HTTP/1.0 has no chunks", async () => {
  await using server = await serve();
  const socket = connect(server.port, "127.0.0.1");
  socket.write(`GET ${path} HTTP/1.0\r\n\r\n`);
  const [, body] = (await text(socket)).split("\r\n\r\n");
  expect(body).toBe(expected);
});

test("middleware that replaces write gets the chunks without their framing", async () => {
  await using server = await serve((response) => {
    const write = response.write.bind(response) as (chunk: string, callback: unknown) => boolean;
    response.write = ((chunk: string | Uint8Array, callback: unknown) =>
      write(
        Buffer.from(chunk as Uint8Array)
          .toString()
          .toUpperCase(),
        callback,
      )) as ServerResponse["write"];
  });
  expect(await read(server.port)).toBe(expected.toUpperCase());
});

test("a response that is not sent over a connection has the chunks without their framing", async () => {
  await using app = fastify();
  await app.register(fastifyGatewayPlugin, { routes });
  expect((await app.inject(path)).body).toBe(expected);
});

test("pipelined requests have their streams one after the other", async () => {
  await using server = await serve();
  const socket = connect(server.port, "127.0.0.1");
  const request = `GET ${path} HTTP/1.1\r\nhost: x\r\n`;
  socket.write(`${request}\r\n${request}connection: close\r\n\r\n`);
  const responses = (await text(socket)).split(/(?=HTTP\/1\.1 )/);
  expect(responses.map((response) => [response.slice(0, 15), response.endsWith("}\n\r\n0\r\n\r\n")])).toEqual([
    ["HTTP/1.1 200 OK", true],
    ["HTTP/1.1 200 OK", true],
  ]);
  const [first = "", second = ""] = responses.map((response) => response.slice(response.indexOf("\r\n\r\n")));
  expect(second).toBe(first);
});

test("a buffer that the implementation fills again for each chunk has a content of its own in each", async () => {
  await using server = await serve();
  expect(await read(server.port, "/streams/download/1")).toBe("aabb");
});
