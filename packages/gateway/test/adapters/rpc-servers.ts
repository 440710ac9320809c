import type { ConnectRouter, Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import {
  createConnectTransport as createConnectFetchTransport,
  createGrpcWebTransport as createGrpcWebFetchTransport,
} from "@connectrpc/connect-web";
import { fastify, type FastifyInstance } from "fastify";
import { once } from "node:events";
import { createServer } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import type { AddressInfo, Server } from "node:net";
import { fastifyGatewayPlugin } from "../../src/adapters/fastify/index.ts";
import { createFetchHandler } from "../../src/adapters/fetch/index.ts";
import { createNodeHandler } from "../../src/adapters/node/index.ts";
import type { TranscoderOptions } from "../../src/index.ts";

export type RpcOptions = Omit<TranscoderOptions, "routes"> & { readonly routes: (router: ConnectRouter) => unknown };

/** An adapter in its server. */
export type RpcServer = AsyncDisposable & {
  /** Undefined without a server, for a fetch handler. */
  readonly baseUrl: string | undefined;
  readonly fetch: typeof globalThis.fetch;
  readonly transports: readonly (readonly [name: string, transport: Transport])[];
};

export const rpcServers: readonly (readonly [name: string, open: (options: RpcOptions) => Promise<RpcServer>])[] = [
  ["node:http", (options) => listen("1.1", createServer(createNodeHandler(options)))],
  ["node:http2", (options) => listen("2", createHttp2Server(createNodeHandler(options)))],
  ["node:http2, core API", openHttp2],
  ["Fastify", (options) => openFastify("1.1", fastify({ forceCloseConnections: true }), options)],
  [
    "Fastify over HTTP/2",
    (options) =>
      openFastify("2", fastify({ http2: true, forceCloseConnections: true }) as unknown as FastifyInstance, options),
  ],
  ["a fetch handler", openFetch],
];

export function openHttp2(options: RpcOptions): Promise<RpcServer> {
  return listen("2", createHttp2Server().on("stream", createNodeHandler(options).onStream));
}

async function listen(httpVersion: "1.1" | "2", server: Server): Promise<RpcServer> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    ...clientsOf(httpVersion, baseUrl),
    async [Symbol.asyncDispose]() {
      if ("closeAllConnections" in server) {
        (server as ReturnType<typeof createServer>).closeAllConnections();
      }
      server.close();
    },
  };
}

async function openFastify(httpVersion: "1.1" | "2", app: FastifyInstance, options: RpcOptions): Promise<RpcServer> {
  await app.register(fastifyGatewayPlugin, options);
  const baseUrl = await app.listen({ host: "127.0.0.1", port: 0 });
  return { ...clientsOf(httpVersion, baseUrl), [Symbol.asyncDispose]: () => app.close() };
}

function clientsOf(httpVersion: "1.1" | "2", baseUrl: string): Omit<RpcServer, keyof AsyncDisposable> {
  return {
    baseUrl,
    fetch,
    transports: [
      ["Connect", createConnectTransport({ baseUrl, httpVersion })],
      ["Connect with JSON", createConnectTransport({ baseUrl, httpVersion, useBinaryFormat: false })],
      ["Connect with GET", createConnectTransport({ baseUrl, httpVersion, useHttpGet: true })],
      ["gRPC-Web", createGrpcWebTransport({ baseUrl, httpVersion })],
      ["gRPC-Web with JSON", createGrpcWebTransport({ baseUrl, httpVersion, useBinaryFormat: false })],
      ...(httpVersion === "2" ? ([["gRPC", createGrpcTransport({ baseUrl })]] as const) : []),
    ],
  };
}

export async function openFetch(options: RpcOptions): Promise<RpcServer> {
  const handler = createFetchHandler(options);
  const call: typeof globalThis.fetch = async (input, init) =>
    handler(new Request(input, { ...init, ...(init?.body != null && { duplex: "half" }) } as RequestInit));
  return {
    baseUrl: undefined,
    fetch: call,
    transports: fetchTransports(call),
    async [Symbol.asyncDispose]() {},
  };
}

/** The clients of browsers. */
export function fetchTransports(call: typeof globalThis.fetch): RpcServer["transports"] {
  const baseUrl = "http://gateway.test";
  return [
    ["Connect", createConnectFetchTransport({ baseUrl, fetch: call, useBinaryFormat: true })],
    ["Connect with JSON", createConnectFetchTransport({ baseUrl, fetch: call })],
    ["Connect with GET", createConnectFetchTransport({ baseUrl, fetch: call, useHttpGet: true })],
    ["gRPC-Web", createGrpcWebFetchTransport({ baseUrl, fetch: call })],
  ];
}
