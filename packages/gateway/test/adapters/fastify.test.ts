import { Code, ConnectError } from "@connectrpc/connect";
import { fastify, type FastifyInstance, type InjectOptions } from "fastify";
import { describe, expect, test } from "vitest";
import { ThingsService } from "../gen/gatewaytest/v1/things_pb.ts";
import { createFrameworkErrorHandler, fastifyGatewayPlugin } from "../../src/adapters/fastify/index.ts";
import { serveStreams } from "../serve-streams.ts";

/** An application with the plugin and another route. */
function createApp(prepare: (app: FastifyInstance) => void): { app: FastifyInstance; calls: string[] } {
  const calls: string[] = [];
  const app = fastify();
  prepare(app);
  app.post("/ordinary", () => "ordinary");
  app.register(fastifyGatewayPlugin, {
    routes: (router) =>
      router.service(ThingsService, {
        openThing: ({ id }) => {
          calls.push(id);
          return { id };
        },
      }),
  });
  return { app, calls };
}

const put: InjectOptions = { method: "PUT", url: "/things/open", payload: { id: "1" } };

describe("an error of a hook", () => {
  const thrown: [what: string, error: unknown][] = [
    ["an error with a status", Object.assign(new Error("no entry"), { statusCode: 403 })],
    ["a bare status", { statusCode: 403 }],
    ["an error without a code", new Error("a mistake")],
    ["an error with a number as code", new ConnectError("no entry", Code.PermissionDenied)],
    ["an error of Fastify's kind", Object.assign(new Error("no"), { code: "FST_ERR_CTP_MINE", statusCode: 418 })],
    ["text", "no entry"],
    ["nothing", undefined],
  ];
  const hooks = ["onRequest", "preParsing", "preValidation", "preHandler"] as const;
  const rows = hooks.flatMap((hook) => thrown.map(([what, error]) => [hook, what, error] as const));

  test.each(rows)("is handled as for an ordinary route: %s, %s", async (hook, _what, error) => {
    for (const isOwn of [false, true]) {
      const seen: unknown[] = [];
      const { app, calls } = createApp((each) => {
        each.addHook(hook as "onRequest", async () => {
          throw error;
        });
        each.addHook("onError", async (_request, _reply, failure) => void seen.push(failure));
        if (isOwn) {
          each.setErrorHandler((failure, _request, reply) => {
            seen.push(failure);
            return reply.status(409).send({ own: true });
          });
        }
      });
      const responses = [];
      for (const request of [put, { ...put, method: "POST", url: "/ordinary" } as const]) {
        const { statusCode, headers, body } = await app.inject(request);
        responses.push({ statusCode, contentType: headers["content-type"], body, seen: seen.splice(0) });
      }
      expect(responses[0]).toEqual(responses[1]);
      expect(responses[0]?.seen.length).toBe(isOwn ? 2 : 1);
      expect(calls).toEqual([]);
      await app.close();
    }
  });
});

describe("a Content-Type that Fastify can't read", () => {
  const requests: InjectOptions[] = [
    { ...put, headers: { "content-type": "" } },
    { ...put, headers: { "content-type": "json" } },
    { ...put, headers: { "content-type": "a b/c; d" } },
    { ...put, payload: "", headers: { "content-type": "/" } },
    { method: "QUERY", url: "/things/open" },
  ];

  test.each(requests)("is rejected by the gateway: %j", async (request) => {
    const { app } = createApp(() => {});
    const { statusCode, headers } = await app.inject(request);
    expect([statusCode, headers["content-type"]]).toEqual([request.method === "PUT" ? 415 : 405, "application/json"]);
    await app.close();
  });

  test.each(requests)("does not bypass hooks: %j", async (request) => {
    for (const hook of ["preValidation", "preHandler"] as const) {
      const { app } = createApp((each) => {
        each.addHook(hook, async () => {
          throw Object.assign(new Error("no entry"), { statusCode: 403 });
        });
      });
      expect((await app.inject(request)).statusCode).toBe(403);
      await app.close();
    }
  });
});

describe("under a prefix", () => {
  const createPrefixed = (): FastifyInstance => {
    const app = fastify();
    app.register(fastifyGatewayPlugin, {
      prefix: "/api",
      routes: (router) =>
        router.service(ThingsService, { openThing: ({ id }, { url }) => ({ id: `${id} ${new URL(url).pathname}` }) }),
    });
    return app;
  };

  test("paths begin behind it, and the url of a call is that of the request", async () => {
    const { statusCode, body } = await createPrefixed().inject({ ...put, url: "/api/things/open" });
    expect([statusCode, JSON.parse(body)]).toMatchObject([201, { id: "1 /api/things/open" }]);
  });

  test.each([
    ["/api/things/nothing", { code: "not_found", message: "no operation has this path" }],
    ["/things/open", expect.objectContaining({ error: "Not Found" })],
  ])("%s is a different path", async (url, response) => {
    const { statusCode, body } = await createPrefixed().inject({ ...put, url });
    expect([statusCode, JSON.parse(body)]).toEqual([404, response]);
  });
});

describe("an error that Fastify responds with before routing", () => {
  test.each([
    ["plain", "application/json", { code: "invalid_argument" }],
    ["problem", "application/problem+json", { status: 400 }],
  ] as const)("has the shape of other errors: %s", async (errors, type, response) => {
    const app = fastify({ frameworkErrors: createFrameworkErrorHandler({ errors }) });
    app.register(fastifyGatewayPlugin, { routes: (router) => router.service(ThingsService, {}), errors });
    const reply = await app.inject({ url: "/things/%zz" });
    expect([reply.statusCode, reply.headers["content-type"]]).toEqual([400, type]);
    expect(reply.json()).toMatchObject(response);
    expect(reply.body).toContain("the path is not valid percent-encoded UTF-8");
    expect(reply.body).not.toContain("zz");
  });

  test("has the same shape over HTTP/2, whose replies have other types", async () => {
    const app = fastify({ http2: true, frameworkErrors: createFrameworkErrorHandler() });
    app.register(fastifyGatewayPlugin, { routes: (router) => router.service(ThingsService, {}) });
    const reply = await app.inject({ url: "/things/%zz" });
    expect([reply.statusCode, reply.json()]).toMatchObject([400, { code: "invalid_argument" }]);
  });
});

test.each(["HTTP/1.1", "HTTP/2"] as const)("a body that turns out to be empty is none: %s", async (version) => {
  await using server = await serveStreams(version, {
    routes: (router) => router.service(ThingsService, { getHeaders: () => ({}), echoThing: () => ({}) }),
  });
  // Without END_STREAM on the header, or chunked.
  const headers: Record<string, string> = version === "HTTP/2" ? {} : { "transfer-encoding": "chunked" };
  for (const [method, path, status] of [
    ["GET", "/things/headers", 400],
    ["POST", "/things/echo", 415],
  ] as const) {
    const empty = await server.request(method, path, { headers, body: [] });
    expect([path, empty.status]).toEqual([path, 200]);
    expect(await empty.read()).toMatchObject({ isComplete: true });
    const refused = await server.request(method, path, { headers, body: ["x"] });
    expect([path, refused.status]).toEqual([path, status]);
    await refused.read();
  }
});
