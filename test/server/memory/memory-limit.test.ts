import { gzipSync } from "node:zlib";
import { Code, ConnectError, type ConnectRouter, createClient, type Transport } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
  compressionGzip,
} from "@connectrpc/connect-node";
import { ErrorInfoSchema, RetryInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";
import { describe, expect, test } from "vitest";
import { FlowsService } from "../../../gen/flowgate/v1/flows_pb.ts";
import { openServer } from "../../../src/server/open-server.ts";
import { createLog } from "../../../src/telemetry/log.ts";
import { silentObserver } from "../../../src/telemetry/observer.ts";
import { json, send } from "../../e2e/rest.ts";
import { openRaw } from "../http/raw-connection.ts";

const mebibyte = 1024 * 1024;

/**
 * Of 64 MiB, one client can take 12 for bodies that arrive and 36 for decoding, which is a body of 4.5. `held` resolves when the
 * deployment of flows with a description "hold" has begun; it ends with `finish`.
 */
async function open(memoryWaitMs = 20) {
  const shed: string[] = [];
  const lines: Record<string, unknown>[] = [];
  const held = Promise.withResolvers<void>();
  const finished = Promise.withResolvers<void>();
  const server = await openServer({
    host: "127.0.0.1",
    port: 0,
    log: createLog({ level: "warn", destination: { write: (line) => void lines.push(JSON.parse(line)) } }),
    routes: (router: ConnectRouter) =>
      void router.service(FlowsService, {
        async setFlows({ flows: [first] }) {
          if (first?.id === "hold") {
            held.resolve();
            await finished.promise;
          }
          return { rev: "r" };
        },
        createFlow: () => ({ rev: "r", id: "f" }),
      }),
    gate: () => {},
    interceptors: [],
    ready: () => ({ ready: true }),
    trustedProxies: ["127.0.0.1"],
    limits: { bodyBytes: 16 * mebibyte, memoryMb: 64, memoryWaitMs },
    observer: { ...silentObserver, callShed: (reason) => void shed.push(reason) },
  });
  return Object.assign(server, { shed, lines, held: held.promise, finish: () => finished.resolve() });
}

type Opened = Awaited<ReturnType<typeof open>>;

const flowsOf = (bytes: number, id = "a") => JSON.stringify([{ id, type: "tab", info: "x".repeat(bytes) }]);

const deploy = ({ url }: Opened, body: string | Buffer, headers: Record<string, string> = {}) =>
  send(url, "POST", "/flows", { headers: { ...json, ...headers }, body });

/** Announces a body that takes all that one client can take for bodies that arrive, and does not send it. */
async function fillReceiving(server: Opened) {
  const raw = await openRaw(server.port);
  const length = 12 * mebibyte;
  raw.write(
    `POST /flows HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\nExpect: 100-continue\r\n\r\n`,
  );
  await raw.until(/100 Continue/);
  return raw;
}

/** Deploys flows that take all that one client can take for decoding. */
async function fillDecoding(server: Opened) {
  const reply = deploy(server, flowsOf(4.5 * mebibyte, "hold"));
  await server.held;
  return reply;
}

const overloaded = {
  code: "overloaded",
  message: expect.stringMatching(
    /^the service is overloaded \(large bodies of other calls take the memory of limits\.memoryMb\): retry in [1-3] s, /,
  ),
};

const transports: Readonly<Record<string, (baseUrl: string) => Transport>> = {
  Connect: (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "1.1" }),
  "Connect, compressed": (baseUrl) =>
    createConnectTransport({ baseUrl, httpVersion: "1.1", sendCompression: compressionGzip }),
  gRPC: (baseUrl) => createGrpcTransport({ baseUrl }),
  "gRPC, compressed": (baseUrl) => createGrpcTransport({ baseUrl, sendCompression: compressionGzip }),
  "gRPC-Web": (baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "1.1" }),
};

describe("while the bodies of a client take their memory", () => {
  test("a body is rejected before it is read, in full length or compressed", async () => {
    await using server = await open();
    using _waiting = await fillReceiving(server);
    const reply = await deploy(server, flowsOf(100_000));
    expect([reply.status, reply.json()]).toEqual([503, overloaded]);
    expect(reply.headers["retry-after"]).toMatch(/^[1-3]$/);
    expect(server.shed).toEqual(["memory"]);
    expect(server.lines).toMatchObject([{ level: "warn", reason: "memory" }]);
  });

  test("a body of unknown length is rejected when it has become large", async () => {
    await using server = await open();
    using _waiting = await fillReceiving(server);
    using raw = await openRaw(server.port);
    const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
    raw.write(
      `POST /flows HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${chunk(" ".repeat(70_000))}`,
    );
    expect(await raw.until(/overloaded/)).toMatch(/^HTTP\/1\.1 503 /);
  });

  test.each(["gzip", undefined])("a body with the coding %s is rejected before it is decoded", async (coding) => {
    await using server = await open();
    const held = fillDecoding(server);
    await server.held;
    const body = flowsOf(100_000);
    const reply = await deploy(server, coding === undefined ? body : gzipSync(body), {
      ...(coding !== undefined && { "content-encoding": coding }),
    });
    expect([reply.status, reply.json()]).toEqual([503, overloaded]);
    server.finish();
    expect((await held).status).toBe(204);
    expect((await deploy(server, body)).status).toBe(204);
  });

  test.each(Object.keys(transports))("a call over %s is rejected with UNAVAILABLE", async (name) => {
    await using server = await open();
    const held = fillDecoding(server);
    await server.held;
    const client = createClient(FlowsService, (transports[name] as (url: string) => Transport)(server.url));
    const call = (bytes: number) => client.setFlows({ flows: [{ id: "a", type: "tab", label: "x".repeat(bytes) }] });
    const error = ConnectError.from(await call(100_000).catch((failure: unknown) => failure));
    expect(error.code).toBe(Code.Unavailable);
    expect(error.findDetails(ErrorInfoSchema)).toMatchObject([{ reason: "overloaded" }]);
    expect(error.findDetails(RetryInfoSchema)).toHaveLength(1);
    expect(error.metadata.has("grpc-retry-pushback-ms")).toBe(name.startsWith("gRPC"));
    expect((await call(60_000)).rev).toBe("r");
    server.finish();
    await held;
    expect((await call(100_000)).rev).toBe("r");
  });

  test("small bodies, compressed ones too, and those of other clients are served", async () => {
    await using server = await open();
    const held = fillDecoding(server);
    await server.held;
    using _waiting = await fillReceiving(server);
    const [small, other] = [flowsOf(60_000), flowsOf(1_400_000)];
    expect((await deploy(server, small)).status).toBe(204);
    expect((await deploy(server, gzipSync(small), { "content-encoding": "gzip" })).status).toBe(204);
    expect((await deploy(server, other, { "x-forwarded-for": "192.0.2.1" })).status).toBe(204);
    server.finish();
    await held;
  });

  test("a body waits, and is served when they end", async () => {
    await using server = await open(60_000);
    const held = fillDecoding(server);
    await server.held;
    const waiting = deploy(server, flowsOf(100_000));
    server.finish();
    expect([(await held).status, (await waiting).status]).toEqual([204, 204]);
  });

  test("a client that disconnects gives its memory back", async () => {
    await using server = await open(60_000);
    using raw = await fillReceiving(server);
    const waiting = deploy(server, flowsOf(100_000));
    raw[Symbol.dispose]();
    expect((await waiting).status).toBe(204);
  });
});

test("a message that would take too much memory is rejected before it is decoded, in each format", async () => {
  await using server = await open();
  const nodes = "{},".repeat(500_000).slice(0, -1);
  const reply = await send(server.url, "POST", "/flow", { headers: json, body: `{"nodes":[${nodes}]}` });
  const message =
    "the body takes more than 32 MiB of memory when it is decoded, half of limits.memoryMb: send less at once";
  expect([reply.status, reply.json()]).toEqual([413, { code: "payload_too_large", message }]);

  const client = createClient(FlowsService, createGrpcTransport({ baseUrl: server.url }));
  const flow = { nodes: Array.from({ length: 400_000 }, () => ({})) };
  const error = ConnectError.from(await client.createFlow({ flow }).catch((failure: unknown) => failure));
  expect([error.code, error.rawMessage]).toEqual([Code.ResourceExhausted, message]);
  expect((await client.createFlow({ flow: { nodes: flow.nodes.slice(0, 100_000) } })).rev).toBe("r");
});
