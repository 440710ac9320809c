import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { FlowsService } from "../../../../gen/flowgate/v1/flows_pb.ts";
import { createGateway, type CorsOptions, type GatewayOptions } from "../../src/index.ts";
import { serve } from "../serve.ts";

const page = "https://app.example";

function flows(cors: CorsOptions | undefined): GatewayOptions {
  return {
    ...(cors === undefined ? {} : { cors }),
    routes: (router) =>
      void router.service(FlowsService, {
        getFlows: () => ({ flows: [], rev: "r1" }),
        setFlows: () => {
          throw new ConnectError("no", Code.PermissionDenied);
        },
      }),
  };
}

const corsHeaders = (headers: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith("access-control-") || name === "vary"));

const preflight = { origin: page, "access-control-request-method": "POST" };

describe("CORS", () => {
  test("is off by default", async () => {
    await using server = await serve(flows(undefined));
    const reply = await server.send("OPTIONS", "/flows", { headers: preflight });
    expect([reply.status, corsHeaders(reply.headers)]).toEqual([204, {}]);
    expect(corsHeaders((await server.send("GET", "/flows", { headers: { origin: page } })).headers)).toEqual({
      vary: "Service-API-Version",
    });
  });

  test("responds to a preflight with the path's methods and the allowed headers", async () => {
    await using server = await serve(flows({ origins: [page], maxAgeSeconds: 60 }));
    const reply = await server.send("OPTIONS", "/flows", {
      headers: { ...preflight, "access-control-request-headers": "x-anything" },
    });
    expect([reply.status, corsHeaders(reply.headers), reply.body]).toEqual([
      204,
      {
        "access-control-allow-origin": page,
        "access-control-allow-methods": "GET, POST, HEAD, OPTIONS",
        "access-control-allow-headers":
          "Accept, Authorization, Connect-Timeout-Ms, Content-Encoding, Content-Type, Grpc-Timeout, If-Match, " +
          "If-None-Match, If-Unmodified-Since, X-Server-Timeout, Service-API-Version, Service-Deployment-Type, Service-Deployment-Message, Idempotency-Key, Service-Deployment-Wait, Service-Deployment-On-Failure, Service-Deployment-Merge, Service-Deployment-Max-Errors",
        "access-control-max-age": "60",
        vary: "Origin",
      },
      "",
    ]);
  });

  test.each([
    ["GET", "Service-API-Version"],
    ["DELETE", undefined],
  ])("allows the headers of the requested operation: %s", async (method, own) => {
    await using server = await serve(flows({ origins: [page] }));
    const headers = { origin: page, "access-control-request-method": method };
    const reply = await server.send("OPTIONS", "/flows", { headers });
    expect(reply.headers["access-control-allow-headers"]).toBe(
      "Accept, Authorization, Connect-Timeout-Ms, Content-Encoding, Content-Type, Grpc-Timeout, If-Match, " +
        `If-None-Match, If-Unmodified-Since, X-Server-Timeout${own === undefined ? "" : `, ${own}`}`,
    );
  });

  test("allows the headers of the option, for every operation and path", async () => {
    await using server = await serve(flows({ origins: [page], allowHeaders: ["X-Tenant"] }));
    for (const path of ["/flows", "/flows?x=1"]) {
      const reply = await server.send("OPTIONS", path, { headers: preflight });
      expect(reply.headers["access-control-allow-headers"]).toMatch(/X-Server-Timeout, X-Tenant/);
    }
  });

  test("lets a page read a response, an error, and a 404", async () => {
    await using server = await serve(flows({ origins: [page], exposeHeaders: ["ETag"] }));
    const headers = { origin: page, "content-type": "text/plain" };
    const expected = { "access-control-allow-origin": page, "access-control-expose-headers": "ETag" };
    expect(corsHeaders((await server.send("GET", "/flows", { headers })).headers)).toEqual({
      ...expected,
      vary: "Service-API-Version, Origin",
    });
    for (const [method, path, status] of [
      ["POST", "/flows", 415],
      ["GET", "/flows?x=1", 400],
      ["DELETE", "/flows", 405],
      ["GET", "/nowhere", 404],
    ] as const) {
      const reply = await server.send(method, path, { headers });
      expect([reply.status, corsHeaders(reply.headers)]).toMatchObject([status, expected]);
      expect(reply.headers["vary"]).toMatch(/Origin$/);
    }
  });

  test.each([["https://evil.example"], ["https://app.example.evil"], ["http://app.example"], ["null"], [""], ["*"]])(
    "adds no headers for another origin: %j",
    async (origin) => {
      await using server = await serve(flows({ origins: [page], credentials: true }));
      const get = await server.send("GET", "/flows", { headers: { origin } });
      expect([get.status, corsHeaders(get.headers)]).toEqual([200, { vary: "Service-API-Version, Origin" }]);
      const asked = await server.send("OPTIONS", "/flows", { headers: { ...preflight, origin } });
      expect([asked.status, corsHeaders(asked.headers), asked.headers["allow"]]).toEqual([
        204,
        { vary: "Origin" },
        "GET, POST, HEAD, OPTIONS",
      ]);
    },
  );

  test("sends the origin if credentials are allowed, and `*` only for any origin", async () => {
    await using named = await serve(flows({ origins: (origin) => origin.endsWith(".example"), credentials: true }));
    expect(corsHeaders((await named.send("GET", "/flows", { headers: { origin: page } })).headers)).toMatchObject({
      "access-control-allow-origin": page,
      "access-control-allow-credentials": "true",
    });
    await using any = await serve(flows({ origins: ["*"] }));
    expect(corsHeaders((await any.send("GET", "/flows", { headers: { origin: page } })).headers)).toEqual({
      "access-control-allow-origin": "*",
      "access-control-expose-headers":
        "ETag, Location, Retry-After, WWW-Authenticate, Cache-Control, Service-Deployment-Outcome, Service-Deployment-Missing-Types, Service-Deployment-Undone-Rev, Service-Deployment-Merged-Rev, Service-Deployment-Outcome-Message",
      vary: "Service-API-Version",
    });
  });

  test("adds Vary to a response without an Origin", async () => {
    await using server = await serve(flows({ origins: [page] }));
    expect(corsHeaders((await server.send("GET", "/flows")).headers)).toEqual({ vary: "Service-API-Version, Origin" });
  });

  test.each([
    [
      { origins: ["*"], credentials: true },
      'cors: credentials can\'t be combined with the origin "*"; list the allowed origins',
    ],
    [
      { origins: ["https://app.example/"] },
      'cors: an origin must have a scheme, a host and no path, such as https://app.example, not "https://app.example/"',
    ],
    [
      { origins: ["app.example"] },
      'cors: an origin must have a scheme, a host and no path, such as https://app.example, not "app.example"',
    ],
  ])("rejects %j at start-up", (cors, message) => {
    expect(() => createGateway(flows(cors))).toThrow(message);
  });
});
