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
import type { GatewayOptions } from "../../src/index.ts";
import { createFetchClient, createHttp1Client, createHttp2Client, type SendRequest } from "./clients.ts";

export type RpcOptions = Omit<GatewayOptions, "routes"> & { readonly routes: (router: ConnectRouter) => unknown };

/** An adapter in its server. */
export type RpcServer = AsyncDisposable & {
  readonly baseUrl: string;
  /** Sends a plain request, and returns the status of the response. */
  readonly statusOf: (method: string, path: string, headers?: Record<string, string>, body?: string) => Promise<number>;
  readonly transports: readonly (readonly [name: string, transport: Transport])[];
};

type OpenServer = (options: RpcOptions) => Promise<RpcServer>;

export const http2Servers: readonly (readonly [name: string, open: OpenServer])[] = [
  ["node:http2", (options) => listen("2", createHttp2Server(createNodeHandler(options)))],
  ["node:http2, core API", openHttp2],
  [
    "Fastify over HTTP/2",
    (options) =>
      openFastify("2", fastify({ http2: true, forceCloseConnections: true }) as unknown as FastifyInstance, options),
  ],
];

export const http1Servers: readonly (readonly [name: string, open: OpenServer])[] = [
  ["node:http", (options) => listen("1.1", createServer(createNodeHandler(options)))],
  ["Fastify", (options) => openFastify("1.1", fastify({ forceCloseConnections: true }), options)],
];

export const rpcServers: readonly (readonly [name: string, open: OpenServer])[] = [
  ...http1Servers,
  ...http2Servers,
  ["a fetch handler", openFetch],
];

export function openHttp2(options: RpcOptions): Promise<RpcServer> {
  return listen("2", createHttp2Server().on("stream", createNodeHandler(options).onStream));
}

async function listen(httpVersion: "1.1" | "2", server: Server): Promise<RpcServer> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const clients = clientsOf(httpVersion, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return {
    ...clients,
    async [Symbol.asyncDispose]() {
      await clients[Symbol.asyncDispose]();
      if ("closeAllConnections" in server) {
        (server as ReturnType<typeof createServer>).closeAllConnections();
      }
      server.close();
    },
  };
}

async function openFastify(httpVersion: "1.1" | "2", app: FastifyInstance, options: RpcOptions): Promise<RpcServer> {
  await app.register(fastifyGatewayPlugin, options);
  const clients = clientsOf(httpVersion, await app.listen({ host: "127.0.0.1", port: 0 }));
  return {
    ...clients,
    async [Symbol.asyncDispose]() {
      await clients[Symbol.asyncDispose]();
      await app.close();
    },
  };
}

function clientsOf(httpVersion: "1.1" | "2", baseUrl: string): RpcServer {
  const plain =
    httpVersion === "2"
      ? createHttp2Client(baseUrl)
      : { send: createHttp1Client(baseUrl), async [Symbol.asyncDispose]() {} };
  return { ...plain, baseUrl, statusOf: statusReader(plain.send), transports: transportsOf(httpVersion, baseUrl) };
}

/** All protocols over an HTTP version. */
function transportsOf(httpVersion: "1.1" | "2", baseUrl: string): RpcServer["transports"] {
  return [
    ["Connect", createConnectTransport({ baseUrl, httpVersion })],
    ["Connect with JSON", createConnectTransport({ baseUrl, httpVersion, useBinaryFormat: false })],
    ["Connect with GET", createConnectTransport({ baseUrl, httpVersion, useHttpGet: true })],
    ["gRPC-Web", createGrpcWebTransport({ baseUrl, httpVersion })],
    ["gRPC-Web with JSON", createGrpcWebTransport({ baseUrl, httpVersion, useBinaryFormat: false })],
    ...(httpVersion === "2" ? ([["gRPC", createGrpcTransport({ baseUrl })]] as const) : []),
  ];
}

function statusReader(send: SendRequest): RpcServer["statusOf"] {
  return async (method, path, headers = {}, body) => {
    const request = { name: path, method, path, headers, ...(body !== undefined && { body }), status: 0 };
    return (await send(request)).status;
  };
}

async function openFetch(options: RpcOptions): Promise<RpcServer> {
  const handler = createFetchHandler(options);
  return {
    baseUrl: "http://gateway.test",
    statusOf: statusReader(createFetchClient(handler)),
    transports: fetchTransports(async (input, init) => handler(new Request(input, init))),
    async [Symbol.asyncDispose]() {},
  };
}

/** The clients of browsers. */
export function fetchTransports(
  call: typeof globalThis.fetch,
  baseUrl = "http://gateway.test",
): RpcServer["transports"] {
  return [
    ["Connect", createConnectFetchTransport({ baseUrl, fetch: call, useBinaryFormat: true })],
    ["Connect with JSON", createConnectFetchTransport({ baseUrl, fetch: call })],
    ["Connect with GET", createConnectFetchTransport({ baseUrl, fetch: call, useHttpGet: true })],
    ["gRPC-Web", createGrpcWebFetchTransport({ baseUrl, fetch: call })],
  ];
}
