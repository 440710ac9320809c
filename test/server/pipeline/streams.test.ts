import { once } from "node:events";
import { connect } from "node:http2";
import { setTimeout as delay } from "node:timers/promises";
import { Code, ConnectError, createClient, type ServiceImpl, type Transport } from "@connectrpc/connect";
import {
  compressionGzip,
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { ErrorInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";
import { StreamsService } from "../../../packages/gateway/test/gen/gatewaytest/v1/streams_pb.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { openServer } from "../../../src/server/open-server.ts";
import { createLog } from "../../../src/telemetry/log.ts";
import { eventually } from "../../e2e/service.ts";

const transports: [string, (baseUrl: string) => Transport][] = [
  [
    "Connect with JSON over HTTP/1.1",
    (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: false }),
  ],
  ["Connect over HTTP/2", (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "2" })],
  [
    "Connect over HTTP/2, compressed",
    (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "2", ...compressed }),
  ],
  ["gRPC", (baseUrl) => createGrpcTransport({ baseUrl })],
  ["gRPC, compressed", (baseUrl) => createGrpcTransport({ baseUrl, ...compressed })],
  ["gRPC with JSON", (baseUrl) => createGrpcTransport({ baseUrl, useBinaryFormat: false })],
  ["gRPC-Web over HTTP/1.1", (baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "1.1" })],
  ["gRPC-Web over HTTP/2", (baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "2" })],
];
const compressed = { sendCompression: compressionGzip, acceptCompression: [compressionGzip], compressMinBytes: 0 };

const bodyBytes = 64 * 1024;

async function open(service: Partial<ServiceImpl<typeof StreamsService>>) {
  const lines: Record<string, unknown>[] = [];
  const server = await openServer({
    host: "127.0.0.1",
    port: 0,
    log: createLog({ level: "info", destination: { write: (line) => void lines.push(JSON.parse(line)) } }),
    routes: (router) => void router.service(StreamsService, service),
    gate: () => {},
    interceptors: [],
    ready: () => ({ ready: true }),
    limits: { bodyBytes },
  });
  return Object.assign(server, { lines });
}

async function collect<T>(messages: AsyncIterable<T>): Promise<{ received: T[]; error: ConnectError | undefined }> {
  const received: T[] = [];
  try {
    for await (const message of messages) {
      received.push(message);
    }
  } catch (error) {
    return { received, error: ConnectError.from(error) };
  }
  return { received, error: undefined };
}

async function* items(...texts: string[]) {
  for (const text of texts) {
    yield { text };
  }
}

describe.each(transports)("streams over %s", (_name, transport) => {
  test("carry headers, messages of any size, and trailers", async () => {
    const large = "x".repeat(300_000);
    await using server = await open({
      async *list({ shelf, count }, context) {
        context.responseHeader.set("x-shelf", shelf);
        for (let at = 0; at < count; at++) {
          yield { text: at === 1 ? large : `${at}` };
        }
        context.responseTrailer.set("x-count", `${count}`);
      },
    });
    const metadata: Record<string, string | null> = {};
    const { received, error } = await collect(
      createClient(StreamsService, transport(server.url)).list(
        { shelf: "a", count: 3 },
        {
          onHeader: (header) => void (metadata["header"] = header.get("x-shelf")),
          onTrailer: (trailer) => void (metadata["trailer"] = trailer.get("x-count")),
        },
      ),
    );
    expect(error).toBeUndefined();
    expect(received.map(({ text }) => text)).toEqual(["0", large, "2"]);
    expect(metadata).toEqual({ header: "a", trailer: "3" });
  });

  test("report an error after a message, and log an unexpected one once", async () => {
    const failures: Record<string, Error> = {
      bug: new TypeError("inside"),
      ours: new FlowgateError("version_mismatch", "the active revision is a"),
      theirs: new ConnectError("gone", Code.NotFound),
    };
    await using server = await open({
      async *list({ shelf }) {
        yield { text: "first" };
        throw failures[shelf];
      },
    });
    const client = createClient(StreamsService, transport(server.url));
    const outcomes = await Promise.all(["bug", "ours", "theirs"].map((shelf) => collect(client.list({ shelf }))));
    expect(outcomes.map(({ received }) => received.length)).toEqual([1, 1, 1]);
    expect(outcomes.map(({ error }) => [error?.code, error?.rawMessage])).toEqual([
      [Code.Internal, expect.stringMatching(/^internal error; the log has the details under request /)],
      [Code.Aborted, "the active revision is a"],
      [Code.NotFound, "gone"],
    ]);
    expect(outcomes[1]?.error?.findDetails(ErrorInfoSchema)).toMatchObject([{ reason: "version_mismatch" }]);
    expect(server.lines).toMatchObject([
      { procedure: "gatewaytest.v1.StreamsService/List", err: { type: "TypeError" } },
    ]);
  });

  test("reject a message that is too large, the first one or a later one", async () => {
    await using server = await open({
      async *list() {
        yield {};
      },
      async sum(messages) {
        for await (const _message of messages) {
          // Reads all messages.
        }
        return {};
      },
    });
    const client = createClient(StreamsService, transport(server.url));
    const large = Array.from({ length: bodyBytes }, () => Math.random().toString(36)).join("");
    const { error } = await collect(client.list({ shelf: large }));
    expect(error?.code).toBe(Code.ResourceExhausted);
    const later = await client.sum(items("a", large)).then(
      () => undefined,
      (failure: unknown) => ConnectError.from(failure).code,
    );
    expect(later).toBe(Code.ResourceExhausted);
  });

  test("end with their deadline, and with their client", async () => {
    const ended: boolean[] = [];
    await using server = await open({
      async *list(_request, { signal }) {
        try {
          yield { text: "first" };
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
        } finally {
          ended.push(signal.aborted);
        }
      },
    });
    const client = createClient(StreamsService, transport(server.url));
    const late = await collect(client.list({}, { timeoutMs: 1_000 }));
    expect([late.received.length, late.error?.code]).toEqual([1, Code.DeadlineExceeded]);
    await eventually(async () => expect(ended).toEqual([true]));
    const left = new AbortController();
    for await (const _message of client.list({}, { signal: left.signal })) {
      break;
    }
    left.abort();
    await eventually(async () => expect(ended).toEqual([true, true]));
    expect(server.lines).toEqual([]);
  });

  test("end with UNAVAILABLE when the server closes", async () => {
    const open_ = await open({
      async *list() {
        yield { text: "first" };
        await new Promise(() => {});
      },
    });
    const messages = createClient(StreamsService, transport(open_.url)).list({})[Symbol.asyncIterator]();
    expect((await messages.next()).value?.text).toBe("first");
    const closed = open_[Symbol.asyncDispose]();
    await expect(messages.next()).rejects.toMatchObject({ code: Code.Unavailable });
    await closed;
  });
});

const duplex = transports.filter(([name]) => /HTTP\/2|^gRPC(?!-Web over HTTP\/1)/.test(name));

test.each(duplex)("both sides send messages in turn over %s", async (_name, transport) => {
  await using server = await open({
    async *chat(messages) {
      for await (const { text } of messages) {
        yield { text: `heard ${text}` };
      }
    },
  });
  const heard: string[] = [];
  let answered = Promise.withResolvers<void>();
  async function* talk() {
    for (const text of ["one", "two", "three"]) {
      yield { text };
      await answered.promise;
      answered = Promise.withResolvers<void>();
    }
  }
  for await (const { text } of createClient(StreamsService, transport(server.url)).chat(talk())) {
    heard.push(text);
    answered.resolve();
  }
  expect(heard).toEqual(["heard one", "heard two", "heard three"]);
});

test("a slow client applies backpressure to the implementation", async () => {
  let made = 0;
  await using server = await open({
    async *list() {
      for (; made < 10_000; made++) {
        yield { text: "x".repeat(10_000) };
      }
    },
  });
  const session = connect(server.url);
  const stream = session.request({
    ":method": "POST",
    ":path": "/gatewaytest.v1.StreamsService/List",
    "content-type": "application/grpc",
    te: "trailers",
  });
  stream.end(Buffer.alloc(5));
  await once(stream, "response");
  // It stops when the flow-control windows are exhausted.
  await expect
    .poll(async () => {
      const before = made;
      await delay(20);
      return made - before;
    })
    .toBe(0);
  expect(made).toBeLessThan(1_000);
  session.destroy();
});

describe("errors with content that can't be sent", () => {
  const failing = {
    // Like a rethrown error of another service, whose metadata are that service's headers.
    "headers of a connection": new ConnectError("up", Code.Internal, {
      connection: "keep-alive",
      "transfer-encoding": "chunked",
    }),
    "half a character": new ConnectError("x\ud800", Code.Internal),
  };

  test.each(Object.entries(failing))("end only the call: %s", async (_what, error) => {
    await using server = await open({
      async *list({ shelf }) {
        if (shelf === "late") {
          yield { text: "first" };
        }
        throw error;
      },
      sum: () => Promise.reject(error),
    });
    for (const [, transport] of transports) {
      const client = createClient(StreamsService, transport(server.url));
      for (const shelf of ["", "late"]) {
        expect((await collect(client.list({ shelf }))).error?.code).toBe(Code.Internal);
      }
      await expect(client.sum(items())).rejects.toMatchObject({ code: Code.Internal });
    }
  });
});

test("messages may arrive in chunks of any size", async () => {
  await using server = await open({
    async sum(messages) {
      const texts: string[] = [];
      for await (const { text } of messages) {
        texts.push(text);
      }
      return { text: texts.join() };
    },
  });
  const session = connect(server.url);
  const stream = session.request({
    ":method": "POST",
    ":path": "/gatewaytest.v1.StreamsService/Sum",
    "content-type": "application/grpc+json",
    te: "trailers",
  });
  const message = (text: string): Buffer => {
    const json = Buffer.from(JSON.stringify({ text }));
    return Buffer.concat([Buffer.from([0, 0, 0, 0, json.length]), json]);
  };
  for (const byte of Buffer.concat([message("one"), message(""), message("three")])) {
    stream.write(Buffer.from([byte]));
  }
  stream.end();
  const received: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => void received.push(chunk));
  await once(stream, "end");
  expect(Buffer.concat(received).toString()).toContain('{"text":"one,,three"}');
  session.destroy();
});
