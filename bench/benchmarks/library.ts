import { create, toBinary } from "@bufbuild/protobuf";
import { ListRequestSchema } from "../../packages/gateway/test/gen/gatewaytest/v1/streams_pb.ts";
import type { Benchmark } from "../benchmark.ts";
import { compare, type RateRatio } from "../compare.ts";
import type { CallResponse, Target } from "../load/target.ts";
import { openPeer } from "../peers/open.ts";
import type { Server } from "../server.ts";
import { jsonOf } from "./login.ts";

const getLogin = "/flowgate.v1.AuthService/GetLogin";

const http1: Pick<Target, "protocol" | "method" | "connections" | "callsPerConnection"> = {
  protocol: "http1",
  method: "POST",
  connections: 64,
  callsPerConnection: 1,
};

const http2: Pick<Target, "protocol" | "connections" | "callsPerConnection"> = {
  protocol: "grpc",
  connections: 4,
  callsPerConnection: 16,
};

const emptyMessage = Buffer.alloc(5);

/** A request for a stream of 1,000 messages, in an envelope. */
const list = envelope(toBinary(ListRequestSchema, create(ListRequestSchema, { shelf: "fiction", count: 1000 })));

function envelope(message: Uint8Array): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

const targets = {
  connectJson: {
    ...http1,
    path: getLogin,
    headers: { "content-type": "application/json", "connect-protocol-version": "1" },
    body: Buffer.from("{}"),
  },
  connectBinary: {
    ...http1,
    path: getLogin,
    headers: { "content-type": "application/proto", "connect-protocol-version": "1" },
    body: new Uint8Array(),
  },
  grpcWeb: {
    ...http1,
    path: getLogin,
    headers: { "content-type": "application/grpc-web+proto", "x-grpc-web": "1" },
    body: emptyMessage,
  },
  grpc: {
    ...http2,
    path: getLogin,
    headers: { "content-type": "application/grpc+proto", te: "trailers" },
    body: emptyMessage,
  },
  stream: {
    ...http2,
    path: "/gatewaytest.v1.StreamsService/List",
    headers: { "content-type": "application/grpc+proto", te: "trailers" },
    body: list,
  },
} satisfies Record<string, Target>;

const peers = {
  "gateway, node:http": ["gateway.ts", "node", "http1"],
  "stock Connect, node:http": ["connect.ts", "http1", "node"],
  "gateway, Fastify": ["gateway.ts", "fastify", "http1"],
  "stock Connect, Fastify": ["connect.ts", "http1", "fastify"],
  "gateway, node:http2": ["gateway.ts", "node", "h2c"],
  "stock Connect, node:http2": ["connect.ts", "h2c", "node"],
  "gateway, Fastify (HTTP/2)": ["gateway.ts", "fastify", "h2c"],
  "stock Connect, Fastify (HTTP/2)": ["connect.ts", "h2c", "fastify"],
  "grpc-js": ["grpc-js.ts"],
} satisfies Record<string, readonly [string, ...string[]]>;

type Peer = keyof typeof peers;

function libraryBenchmark(
  name: string,
  title: string,
  target: Target,
  names: readonly Peer[],
  ratios: readonly RateRatio[],
  normalize: (response: CallResponse) => unknown,
): Benchmark {
  return {
    name,
    title,
    run: (effort) =>
      compare(
        {
          async open() {
            await using stack = new AsyncDisposableStack();
            const contenders: { name: Peer; server: Server; target: Target }[] = [];
            for (const peer of names) {
              const [entry, ...args] = peers[peer];
              contenders.push({ name: peer, server: stack.use(await openPeer(entry, ...args)), target });
            }
            const all = stack.move();
            return { contenders, [Symbol.asyncDispose]: () => all.disposeAsync() };
          },
          ratios,
          normalize,
        },
        effort,
      ),
  };
}

const onHttp1: readonly Peer[] = [
  "gateway, node:http",
  "stock Connect, node:http",
  "gateway, Fastify",
  "stock Connect, Fastify",
];

const onHttp2: readonly Peer[] = [
  "gateway, node:http2",
  "stock Connect, node:http2",
  "gateway, Fastify (HTTP/2)",
  "stock Connect, Fastify (HTTP/2)",
];

function ratiosOf(what: string, pairs: readonly Peer[], goal: number): RateRatio[] {
  const [node, stockNode, fastify, stockFastify] = pairs as [Peer, Peer, Peer, Peer];
  return [
    { title: `Library, ${what}: of stock Connect in Fastify`, of: fastify, by: stockFastify, goal },
    { title: "… on Node's own server", of: node, by: stockNode, goal },
  ];
}

const lengthOf = ({ body }: CallResponse): number => body.length;

/** The first message, without the trailers, whose format may differ. */
function messageOf({ body }: CallResponse): string {
  const bytes = Buffer.from(body);
  return bytes.subarray(0, 5 + bytes.readUInt32BE(1)).toString("hex");
}

export const libraryBenchmarks: readonly Benchmark[] = [
  libraryBenchmark(
    "library-connect-json",
    "The gateway library alone: Connect, unary, JSON, HTTP/1.1",
    targets.connectJson,
    onHttp1,
    ratiosOf("Connect unary JSON", onHttp1, 5),
    jsonOf,
  ),
  libraryBenchmark(
    "library-connect-binary",
    "The gateway library alone: Connect, unary, binary, HTTP/1.1",
    targets.connectBinary,
    onHttp1,
    ratiosOf("Connect unary binary", onHttp1, 5),
    ({ body }) => Buffer.from(body).toString("hex"),
  ),
  libraryBenchmark(
    "library-grpc-web",
    "The gateway library alone: gRPC-Web, unary, HTTP/1.1",
    targets.grpcWeb,
    onHttp1,
    ratiosOf("gRPC-Web unary", onHttp1, 5),
    messageOf,
  ),
  libraryBenchmark(
    "library-grpc",
    "The gateway library alone: gRPC, unary, HTTP/2 without TLS",
    targets.grpc,
    [...onHttp2, "grpc-js"],
    [
      ...ratiosOf("gRPC unary", onHttp2, 7),
      { title: "… of grpc-js", of: "gateway, node:http2", by: "grpc-js", goal: 1.15 },
    ],
    messageOf,
  ),
  libraryBenchmark(
    "library-stream",
    "The gateway library alone: gRPC, a server stream of 1,000 messages",
    targets.stream,
    onHttp2,
    ratiosOf("gRPC server stream of 1,000 messages", onHttp2, 2),
    lengthOf,
  ),
];
