import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import {
  BodilessStreamService,
  FormStreamService,
  NoContentStreamService,
} from "../../../gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "../../../gen/gatewaytest/v1/things_pb.ts";
import { type FastifyGatewayPluginOptions } from "../../../../src/adapters/fastify/index.ts";
import { createGateway } from "../../../../src/index.ts";
import { serveStreams } from "../../../serve-streams.ts";
import { vectors } from "../../../vectors.ts";
import { type Implementation, ndjson, serve } from "./streams-service.ts";

test("stream formats do not apply to unary calls", async () => {
  await using server = await serveStreams("HTTP/1.1", {
    routes: (router) => router.service(ThingsService, { sendForm: () => ({}), openThing: () => ({}) }),
  });
  const body = '{"id":"1"}';
  const json = { "content-type": "application/json" };
  const open = (headers: Record<string, string>) => server.request("PUT", "/things/open", { headers, body });
  expect((await open({ ...json, accept: "application/x-ndjson" })).status).toBe(406);
  expect((await open({ ...json, accept: "text/event-stream" })).status).toBe(406);
  expect((await open(ndjson)).status).toBe(415);
  const response = await open({ ...json, accept: "text/event-stream, application/json" });
  expect([response.headers["content-type"], (await response.read()).body]).toEqual(["application/json", '{"tags":[]}']);
});

describe("a bidirectional stream", () => {
  const echo: Implementation = {
    async *chat(requests) {
      for await (const { text } of requests) {
        yield { text: text.toUpperCase() };
      }
    },
  };

  test("responds to each line while the next is awaited, over HTTP/2", async () => {
    await using server = await serve("HTTP/2", echo);
    const lines: { resolve: (line: string) => void }[] = [];
    const next = (): Promise<string> => {
      const { promise, resolve } = Promise.withResolvers<string>();
      lines.push({ resolve });
      return promise;
    };
    const response = await server.request("POST", "/streams/chat", {
      headers: ndjson,
      body: (async function* () {
        yield '{"text":"a"}\n';
        yield await next();
      })(),
    });
    expect(response).toMatchObject({ status: 200, headers: { "content-type": "application/x-ndjson" } });
    const pieces: string[] = [];
    for await (const piece of response.chunks) {
      pieces.push(piece.toString());
      lines.shift()?.resolve('{"text":"b"}\n');
    }
    expect(pieces).toEqual(['{"text":"A"}\n', '{"text":"B"}\n']);
  });

  test("has an in-band error for an invalid line", async () => {
    await using server = await serve("HTTP/2", echo);
    const response = await server.request("POST", "/streams/chat", {
      headers: ndjson,
      body: '{"text":"a"}\n{"x":1}\n',
    });
    expect(await response.read()).toEqual({
      body: expect.stringMatching(
        /^\{"text":"A"\}\n\{"error":\{"code":"invalid_argument","message":"line 2: x: unknown; [^\n]*\}\}\n$/,
      ),
      isComplete: false,
    });
  });

  test("is NDJSON, also if Accept prefers other types", async () => {
    await using server = await serve("HTTP/2", echo);
    const accept = "text/event-stream, application/json";
    const response = await server.request("POST", "/streams/chat", { headers: { ...ndjson, accept }, body: "{}" });
    expect(response.status).toBe(406);
  });

  test("is rejected over HTTP/1.1", async () => {
    await using server = await serve("HTTP/1.1", echo);
    const response = await server.request("POST", "/streams/chat", { headers: ndjson, body: "{}" });
    expect([response.status, JSON.parse((await response.read()).body)]).toEqual([
      505,
      {
        code: "unimplemented",
        reason: "http_version_not_supported",
        message: "a bidirectional stream requires HTTP/2",
      },
    ]);
  });
});

type StreamVector = {
  dialect: string;
  messages: { text: string }[];
  error?: { code: Code; message: string };
  expect: { body: string; contentType: string };
};

describe("the formats of other gateways", () => {
  const dialects: Record<string, [accept: string, options: Omit<FastifyGatewayPluginOptions, "routes">]> = {
    "json-array": ["application/json", {}],
    sse: ["text/event-stream", {}],
    "aspnet-ndjson": ["*/*", { errors: "status", streams: { json: "lines", preferred: "json" } }],
    "grpc-gateway": ["*/*", { errors: "status", streams: { json: "results", preferred: "json" } }],
  };
  const gateway: [string, StreamVector] = [
    "grpc-gateway",
    {
      dialect: "grpc-gateway",
      messages: [{ text: "a" }],
      error: { code: Code.NotFound, message: "gone" },
      expect: {
        body: '{"result":{"text":"a"}}\n{"error":{"code":5,"message":"gone","details":[]}}\n',
        contentType: "application/json",
      },
    },
  ];

  test.each<[string, StreamVector]>([...vectors<StreamVector>("stream"), gateway])("%s", async (_id, vector) => {
    const { dialect, messages, error, expect: expected } = vector;
    const [accept, options] = dialects[dialect] ?? ["", {}];
    await using server = await serve(
      "HTTP/1.1",
      {
        async *list() {
          yield* messages;
          if (error !== undefined) {
            throw new ConnectError(error.message, error.code);
          }
        },
      },
      options,
    );
    const response = await server.request("GET", "/streams/s/items", { headers: { accept } });
    expect(response.headers["content-type"]).toBe(expected.contentType);
    expect(await response.read()).toEqual({ body: expected.body, isComplete: error === undefined });
  });
});

test.each([
  [BodilessStreamService, /BodilessStreamService.*a client stream must have a body/],
  [NoContentStreamService, /NoContentStreamService.*a server stream must have a response body/],
  [
    FormStreamService,
    /FormStreamService.*a stream of requests must be application\/x-ndjson or application\/json, not application\/x-www-form-urlencoded/,
  ],
])("rejects at start-up %s", (service, problem) => {
  expect(() => createGateway({ routes: (router) => router.service(service, {}) })).toThrow(problem);
});
