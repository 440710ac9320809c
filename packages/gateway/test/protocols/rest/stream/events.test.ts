import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { createRestTransport } from "../../../../src/client/index.ts";
import { createGateway, type GatewayOptions, type Rule } from "../../../../src/index.ts";
import { ItemSchema, StreamsService } from "../../../gen/gatewaytest/v1/streams_pb.ts";
import { serve } from "../../../serve.ts";
import { serveStreams } from "../../../serve-streams.ts";

type Sse = NonNullable<NonNullable<Rule["options"]>["sse"]>;

const path = "/streams/s/items";
const accept = "text/event-stream";
/** The headers of an EventSource in browsers. */
const eventSource = { accept, "cache-control": "no-cache" };

function streams(items: readonly { text: string; count?: number }[], sse?: Sse): GatewayOptions {
  return {
    ...(sse && { rules: [{ selector: "gatewaytest.v1.StreamsService.List", options: { sse } }] }),
    routes: (router) =>
      router.service(StreamsService, {
        async *list() {
          yield* items;
        },
      }),
  };
}

describe("server-sent events", () => {
  const sse = { id: "count", event: "text" };

  test("have the ID and the name that fields of the message contain", async () => {
    await using server = await serve(
      streams(
        [
          { text: "added", count: 7 },
          { text: "removed", count: 8 },
        ],
        sse,
      ),
    );
    const { body } = await server.send("GET", path, { headers: { accept } });
    expect(body).toBe(
      'id: 7\nevent: added\ndata: {"text":"added","count":7}\n\nid: 8\nevent: removed\ndata: {"text":"removed","count":8}\n\n',
    );
  });

  test("have no line for an empty field", async () => {
    await using server = await serve(streams([{ text: "" }], { event: "text" }));
    expect((await server.send("GET", path, { headers: { accept } })).body).toBe("data: {}\n\n");
  });

  test("other formats are not affected", async () => {
    await using server = await serve(streams([{ text: "a", count: 1 }], sse));
    expect((await server.send("GET", path)).body).toBe('{"text":"a","count":1}\n');
  });

  test("the client reads their messages", async () => {
    await using server = await serve(streams([{ text: "a", count: 1 }], sse));
    const transport = createRestTransport({ baseUrl: `http://127.0.0.1:${server.port}` });
    const texts: string[] = [];
    for await (const { text } of createClient(StreamsService, transport).list(
      { shelf: "s" },
      { headers: { accept } },
    )) {
      texts.push(text);
    }
    expect(texts).toEqual(["a"]);
  });

  test.each(["a\nb", "a\rb", "a\0b", "error"])("can't be named %j", async (text) => {
    const errors: unknown[] = [];
    await using server = await serve({
      ...streams([{ text }], sse),
      mapError(error) {
        errors.push(error);
        return new ConnectError("internal error", Code.Internal);
      },
    });
    expect((await server.send("GET", path, { headers: { accept } })).status).toBe(500);
    expect(errors).toEqual([
      new RangeError(
        `${StreamsService.method.list.toString()}: the event of a server-sent event can't be ${JSON.stringify(text)}`,
      ),
    ]);
  });

  test.each([
    [undefined, undefined, "no-cache"],
    ["no-store", undefined, "no-store"],
    ["no-store", "private", "private"],
  ])(
    "with Cache-Control %s of the method and %s of the implementation are sent with %s",
    async (ofMethod, set, sent) => {
      await using server = await serve({
        rules: [
          {
            selector: "gatewaytest.v1.StreamsService.List",
            options: { headers: ofMethod === undefined ? [] : [{ name: "Cache-Control", value: ofMethod }] },
          },
        ],
        routes: (router) =>
          router.service(StreamsService, {
            async *list(_, { responseHeader }) {
              if (set !== undefined) {
                responseHeader.set("Cache-Control", set);
              }
              yield { text: "a" };
            },
          }),
      });
      const { headers } = await server.send("GET", path, { headers: { accept } });
      expect(headers["cache-control"]).toBe(sent);
      expect(headers["x-accel-buffering"]).toBe("no");
    },
  );

  test("name fields that exist", () => {
    expect(() => createGateway(streams([], { id: "missing" }))).toThrow(
      'gatewaytest.v1.Item has no scalar field "missing" for the id of events',
    );
  });
});

describe("an EventSource", () => {
  test("is not answered again after the end of the stream", async () => {
    await using server = await serve(streams([{ text: "a" }]));
    const { body } = await server.send("GET", path, { headers: eventSource });
    expect(body).toBe('data: {"text":"a"}\n\nid: end-of-stream\n\n');
    const again = { ...eventSource, "last-event-id": "end-of-stream" };
    const { status, body: nothing } = await server.send("GET", path, { headers: again });
    expect([status, nothing]).toEqual([204, ""]);
  });

  test("ends also where there are no messages", async () => {
    await using server = await serve(streams([]));
    expect((await server.send("GET", path, { headers: eventSource })).body).toBe("id: end-of-stream\n\n");
  });

  test("resumes where the connection was lost", async () => {
    const seen: unknown[] = [];
    await using server = await serve({
      routes: (router) =>
        router.service(StreamsService, {
          async *list(_, { requestHeader }) {
            seen.push(requestHeader.get("last-event-id"));
            yield { text: "a" };
          },
        }),
    });
    await server.send("GET", path, { headers: { ...eventSource, "last-event-id": "7" } });
    expect(seen).toEqual(["7"]);
  });

  test("reconnects after an error", async () => {
    await using server = await serveStreams("HTTP/1.1", {
      routes: (router) =>
        router.service(StreamsService, {
          async *list() {
            yield { text: "a" };
            throw new ConnectError("restarting", Code.Unavailable);
          },
        }),
    });
    const { body, isComplete } = await (await server.request("GET", path, { headers: eventSource })).read();
    expect(body).toMatch(/^data: \{"text":"a"\}\n\nevent: error\ndata: .*\n\n$/);
    expect(isComplete).toBe(false);
  });
});

test.each([accept, "application/x-ndjson", "application/json"])(
  "a frozen message is encoded once for all streams of %s",
  async (accept) => {
    let reads = 0;
    const item = create(ItemSchema);
    Object.defineProperty(item, "text", {
      enumerable: true,
      get() {
        reads++;
        return "a";
      },
    });
    Object.freeze(item);
    await using server = await serve({
      routes: (router) =>
        router.service(StreamsService, {
          async *list() {
            yield item;
            yield item;
          },
        }),
    });
    const send = async (): Promise<string> => (await server.send("GET", path, { headers: { accept } })).body;
    const first = await send();
    const readsOfFirst = reads;
    expect(await send()).toBe(first);
    expect(first.match(/"text":"a"/g)).toHaveLength(2);
    expect(reads).toBe(readsOfFirst);
  },
);
