// @ts-expect-error: The package has no types.
import express from "express";
import { fastify } from "fastify";
import { Hono } from "hono";
import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, test } from "vitest";
import { fastifyGatewayPlugin } from "../../src/adapters/fastify/index.ts";
import { createFetchHandler } from "../../src/adapters/fetch/index.ts";
import { createNodeHandler, type NodeHandler } from "../../src/adapters/node/index.ts";
import { createFetchClient, createHttp1Client, type SendRequest } from "./clients.ts";
import { options } from "./service.ts";

const passing = { ...options, unknownPath: "pass" } as const;

type Application = AsyncDisposable & { readonly send: SendRequest };

async function listen(listener: RequestListener): Promise<Application> {
  const server: Server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    send: createHttp1Client(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

type ExpressApp = RequestListener & {
  use(handler: RequestListener | NodeHandler): void;
  use(path: string, handler: NodeHandler): void;
  get(path: string, handler: (request: unknown, response: { send(body: string): void }) => void): void;
};

const createExpress = express as (() => ExpressApp) & { json(): RequestListener };

const applications: [name: string, open: () => Promise<Application>][] = [
  [
    "Fastify",
    async () => {
      const app = fastify({ forceCloseConnections: true });
      app.register(fastifyGatewayPlugin, passing);
      app.get("/about", () => "own route");
      app.setNotFoundHandler((_request, reply) => reply.status(404).send("own 404"));
      const url = await app.listen({ host: "127.0.0.1", port: 0 });
      return { send: createHttp1Client(url), [Symbol.asyncDispose]: () => app.close() };
    },
  ],
  [
    "node:http",
    async () => {
      const handler = createNodeHandler(passing);
      return listen((request, response) =>
        handler(request, response, () => {
          response.statusCode = request.url === "/about" ? 200 : 404;
          response.end(request.url === "/about" ? "own route" : "own 404");
        }),
      );
    },
  ],
  [
    "Express",
    async () => {
      const app = createExpress();
      app.use(createNodeHandler(passing));
      app.get("/about", (_request, response) => response.send("own route"));
      const notFound: RequestListener = (_request, response) => {
        response.statusCode = 404;
        response.end("own 404");
      };
      app.use(notFound);
      return listen(app);
    },
  ],
  [
    "Hono",
    async () => {
      const app = new Hono();
      const handler = createFetchHandler(passing);
      app.use(async (context, next) => (await handler(context.req.raw)) ?? next());
      app.get("/about", (context) => context.text("own route"));
      app.notFound((context) => context.text("own 404", 404));
      return { send: createFetchClient((request) => app.fetch(request)), async [Symbol.asyncDispose]() {} };
    },
  ],
];

describe.each(applications)("with unknownPath: pass, in %s", (_name, open) => {
  test("requests for other paths go on to the application, all others are answered", async () => {
    await using application = await open();
    const send = async (method: string, path: string) => {
      const { status, body } = await application.send({ name: "", status: 0, method, path });
      return [status, body];
    };
    expect(await send("GET", "/about")).toEqual([200, "own route"]);
    expect(await send("GET", "/nowhere")).toEqual([404, "own 404"]);
    expect(await send("POST", "/nowhere")).toEqual([404, "own 404"]);
    expect(await send("GET", "/users/a?age=4")).toEqual([200, '{"userName":"a","age":4}']);
    expect((await send("DELETE", "/users/a"))[0]).toBe(405);
    expect((await send("GET", "/users/nobody"))[0]).toBe(404);
  });
});

test("without a next function, a Node handler rejects unknown paths", async () => {
  await using application = await listen(createNodeHandler(passing));
  const answer = await application.send({ name: "", status: 0, method: "GET", path: "/nowhere" });
  expect([answer.status, answer.body]).toEqual([404, '{"code":"not_found","message":"no operation has this path"}']);
});

test.each([createNodeHandler(options), createFetchHandler(options)])(
  "match routes a request without responding",
  ({ match }) => {
    const { isKnownPath, template, method } = match("GET", "/users/a?age=4");
    expect({ isKnownPath, template, method: method?.name }).toEqual({
      isKnownPath: true,
      template: "/users/{user_name}",
      method: "SendForm",
    });
    expect(match("DELETE", "/users/a")).toMatchObject({ isKnownPath: true, method: undefined });
    expect(match("GET", "/nowhere")).toMatchObject({ isKnownPath: false, method: undefined });
  },
);

describe("Fastify with a wildcard route of its own", () => {
  const message = "the application has a route for /* already, which the gateway needs";

  test.each(["before", "behind"])("is an error that can be caught: %s the plugin", async (order) => {
    const app = fastify();
    if (order === "before") {
      app.get("/*", () => "own route");
    }
    app.register(fastifyGatewayPlugin, options);
    if (order === "behind") {
      app.get("/*", () => "own route");
    }
    await expect(app.ready()).rejects.toThrow(message);
    await app.close();
  });

  test("is allowed if the plugin has a prefix", async () => {
    const app = fastify();
    app.get("/*", () => "own route");
    app.register(fastifyGatewayPlugin, { ...options, prefix: "/api" });
    expect((await app.inject({ url: "/api/users/a" })).json()).toEqual({ userName: "a" });
    expect((await app.inject({ url: "/users/a" })).body).toBe("own route");
    await app.close();
  });
});

describe("Express", () => {
  test("under a mount path, paths begin behind it, and the url of a call is that of the request", async () => {
    const app = createExpress();
    app.use("/api", createNodeHandler(options));
    await using application = await listen(app);
    const answer = await application.send({
      name: "",
      status: 0,
      method: "PUT",
      path: "/api/things/open",
      headers: { "content-type": "application/json" },
      body: '{"id":"1"}',
    });
    expect(JSON.parse(answer.body)).toMatchObject({ id: "1 at /api/things/open" });
  });

  test("a body that a middleware has read is an error that says so", async () => {
    const app = createExpress();
    app.use(createExpress.json());
    app.use(createNodeHandler(options));
    await using application = await listen(app);
    for (const [path, type] of [
      ["/things/echo", "application/json"],
      ["/things/form", "application/json"],
    ]) {
      const answer = await application.send({
        name: "",
        status: 0,
        method: "POST",
        path: path ?? "",
        headers: { "content-type": type ?? "" },
        body: "{}",
      });
      expect([answer.status, JSON.parse(answer.body)]).toMatchObject([
        500,
        { code: "internal", reason: "body_already_read" },
      ]);
    }
  });

  test("headers of a middleware are sent, and Vary has the values of both", async () => {
    const handler = createNodeHandler(options);
    await using application = await listen((request, response) => {
      response.setHeader("X-Request-Id", "1");
      response.setHeader("Content-Type", "text/html");
      response.setHeader("Vary", "Cookie");
      handler(request, response);
    });
    const { headers } = await application.send({ name: "", status: 0, method: "GET", path: "/things/headers" });
    expect(headers).toMatchObject({ "x-request-id": "1", "content-type": "application/json", vary: "Origin, Cookie" });
  });
});
