import { serve as serveHono } from "@hono/node-server";
// @ts-expect-error: The package has no types.
import express from "express";
import { fastify, type FastifyInstance } from "fastify";
import { Hono } from "hono";
import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createHttp2Server, type Http2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { fastifyGatewayPlugin } from "../../src/adapters/fastify/index.ts";
import { createFetchHandler } from "../../src/adapters/fetch/index.ts";
import { createNodeHandler, type NodeHandler } from "../../src/adapters/node/index.ts";
import { createFetchClient, createHttp1Client, createHttp2Client, type Answer, type SendRequest } from "./clients.ts";
import { openListeningProgram } from "../listening-program.ts";
import { openEdgeHandler } from "./edge.ts";
import { findProgram } from "./programs.ts";
import type { TestRequest } from "./requests.ts";
import { options } from "./service.ts";

/** An adapter with a server, or with what calls it instead of one. */
export type TestServer = {
  readonly name: string;
  /** Why the server can't be started; undefined if it can. */
  readonly missing?: string | undefined;
  /** A Request is made of what is received, or instead of sending it. */
  readonly isFetch?: true;
  /** Removes from an answer what may differ, since it is up to the runtime. */
  readonly normalize?: (answer: Answer) => Answer;
  /** The answer that differs by design, given that of the other servers. */
  readonly expect?: (request: TestRequest, answer: Answer) => Answer;
  readonly open: () => Promise<AsyncDisposable & { readonly send: SendRequest }>;
};

export const servers: readonly TestServer[] = [
  { name: "Fastify", open: () => openFastify(fastify({ forceCloseConnections: true })) },
  { name: "Fastify over HTTP/2", open: openFastifyHttp2 },
  { name: "node:http", open: () => listen(createServer(createNodeHandler(options))) },
  { name: "node:http2", open: () => openHttp2(createHttp2Server(createNodeHandler(options))) },
  {
    name: "node:http2, core API",
    open: () => openHttp2(createHttp2Server().on("stream", createNodeHandler(options).onStream)),
  },
  { name: "Express 5", open: openExpress },
  { name: "Hono on Node", isFetch: true, open: openHono },
  { name: "Hono without a server", isFetch: true, open: async () => withoutServer(createHono().fetch) },
  { name: "fetch", isFetch: true, open: async () => withoutServer(createFetchHandler(options)) },
  {
    name: "fetch on an edge runtime",
    isFetch: true,
    expect: withoutNodeCompression,
    open: async () => withoutServer(await openEdgeHandler()),
  },
  {
    name: "Bun",
    isFetch: true,
    normalize: (answer) => withoutLength(withoutGzip(answer)),
    ...(await program("bun", [])),
  },
  { name: "Deno", isFetch: true, normalize: withoutGzip, ...(await program("deno", ["run", "--allow-all"])) },
];

/** CompressionStream has gzip only, and can't flush, so that streams are not compressed. */
function withoutNodeCompression({ name }: TestRequest, answer: Answer): Answer {
  const { headers } = answer;
  if (name === "an unknown coding") {
    const body = answer.body.replace("gzip, br, zstd", "gzip");
    return {
      ...answer,
      body,
      headers: { ...headers, "accept-encoding": "gzip", "content-length": String(body.length) },
    };
  }
  const isStream = answer.status === 200 && headers["content-length"] === undefined;
  if (!isStream) {
    return answer;
  }
  const { "content-encoding": _, ...others } = headers;
  const { body } = withoutGzip(answer);
  return { ...answer, body, headers: { ...others, vary: String(headers["vary"]).replace("Accept-Encoding, ", "") } };
}

/** Another implementation of gzip compresses to other bytes. */
function withoutGzip(answer: Answer): Answer {
  if (answer.headers["content-encoding"] !== "gzip") {
    return answer;
  }
  return { ...withoutLength(answer), body: gunzipSync(Buffer.from(answer.body, "latin1")).toString("latin1") };
}

/** Bun knows the length of a stream that ends at once. */
function withoutLength(answer: Answer): Answer {
  const { "content-length": _, ...headers } = answer.headers;
  return { ...answer, headers };
}

async function program(command: string, args: readonly string[]): Promise<Pick<TestServer, "missing" | "open">> {
  const path = await findProgram(command);
  return {
    missing: path === undefined ? `${command} is not installed` : undefined,
    async open() {
      const { url, ...running } = await openListeningProgram(path ?? command, [
        ...args,
        join(import.meta.dirname, `fixtures/${command}.ts`),
      ]);
      return { ...running, send: createHttp1Client(url) };
    },
  };
}

function withoutServer(
  fetch: (request: Request) => Response | Promise<Response>,
): AsyncDisposable & { send: SendRequest } {
  return { send: createFetchClient(fetch), async [Symbol.asyncDispose]() {} };
}

async function listen(server: Server): Promise<AsyncDisposable & { send: SendRequest }> {
  server.listen(0, "127.0.0.1");
  return listening(server);
}

async function listening(server: Server): Promise<AsyncDisposable & { send: SendRequest }> {
  await once(server, "listening");
  return {
    send: createHttp1Client(urlOf(server)),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

async function openFastify(app: FastifyInstance): Promise<AsyncDisposable & { send: SendRequest }> {
  app.register(fastifyGatewayPlugin, options);
  const url = await app.listen({ host: "127.0.0.1", port: 0 });
  return { send: createHttp1Client(url), [Symbol.asyncDispose]: () => app.close() };
}

async function openFastifyHttp2(): Promise<AsyncDisposable & { send: SendRequest }> {
  const app = fastify({ http2: true });
  app.register(fastifyGatewayPlugin, options);
  const client = createHttp2Client(await app.listen({ host: "127.0.0.1", port: 0 }));
  return {
    send: client.send,
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]();
      await app.close();
    },
  };
}

async function openHttp2(server: Http2Server): Promise<AsyncDisposable & { send: SendRequest }> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = createHttp2Client(urlOf(server));
  return {
    send: client.send,
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]();
      server.close();
      await once(server, "close");
    },
  };
}

type ExpressApp = RequestListener & { disable(setting: string): void; use(handler: NodeHandler): void };

function openExpress(): Promise<AsyncDisposable & { send: SendRequest }> {
  const app = (express as () => ExpressApp)();
  app.disable("x-powered-by");
  app.use(createNodeHandler(options));
  return listen(createServer(app));
}

function createHono(): Hono {
  const app = new Hono();
  const handler = createFetchHandler(options);
  app.all("*", (context) => handler(context.req.raw));
  return app;
}

function openHono(): Promise<AsyncDisposable & { send: SendRequest }> {
  return listening(serveHono({ fetch: createHono().fetch, hostname: "127.0.0.1", port: 0 }) as Server);
}

function urlOf(server: { address(): AddressInfo | string | null }): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
