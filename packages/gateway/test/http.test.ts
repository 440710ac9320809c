import { create } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  createContextKey,
  createContextValues,
  type ConnectRouter,
  type Interceptor,
} from "@connectrpc/connect";
import { connect } from "node:net";
import { brotliCompressSync, gzipSync, zstdCompressSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { AuthService, TokenErrorReason, TokenErrorSchema } from "../../../gen/flowgate/v1/auth_pb.ts";
import { UnauthorizedSchema } from "../../../gen/flowgate/v1/access_pb.ts";
import { FlowsService, GetFlowsResponseSchema, type SetFlowsRequest } from "../../../gen/flowgate/v1/flows_pb.ts";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { ThingsService } from "./gen/gatewaytest/v1/things_pb.ts";
import { form, json, serve } from "./serve.ts";

const v2 = { "service-api-version": "v2" };

function flows(implementation: Parameters<typeof withFlows>[0] = {}): { routes: (router: ConnectRouter) => void } {
  const { routes } = recordFlows(implementation);
  return { routes };
}

function recordFlows(implementation: Parameters<typeof withFlows>[0] = {}): {
  routes: (router: ConnectRouter) => void;
  deployed: SetFlowsRequest[];
} {
  const deployed: SetFlowsRequest[] = [];
  return {
    deployed,
    routes: withFlows({
      getFlows: () => ({ flows: [{ id: "a", type: "tab", label: "A" }], rev: "r1" }),
      setFlows: (request) => {
        deployed.push(request);
        return { rev: "r2" };
      },
      ...implementation,
    }),
  };
}

function withFlows(implementation: Parameters<typeof register>[1]) {
  return (router: ConnectRouter): void => register(router, implementation);
}

function register(
  router: ConnectRouter,
  implementation: Partial<{ getFlows: () => object; setFlows: (request: SetFlowsRequest) => object }>,
): void {
  router.service(FlowsService, implementation);
}

describe("routing", () => {
  test.each([
    ["GET", "/nowhere", 404, "not_found", undefined],
    ["GET", "/flows/", 404, "not_found", undefined],
    ["GET", "//flows", 404, "not_found", undefined],
    ["GET", "/FLOWS", 404, "not_found", undefined],
    ["DELETE", "/flows", 405, "unimplemented", "GET, POST, HEAD, OPTIONS"],
    ["PROPFIND", "/flows", 405, "unimplemented", "GET, POST, HEAD, OPTIONS"],
    ["GET", `/${"x".repeat(99)}`, 404, "not_found", undefined],
  ])("%s %s is %i", async (method, path, status, code, allow) => {
    await using server = await serve(flows());
    const reply = await server.send(method, path);
    expect([reply.status, reply.headers["content-type"], reply.headers.allow]).toEqual([
      status,
      "application/json",
      allow,
    ]);
    expect(JSON.parse(reply.body)).toEqual({
      code,
      message: expect.any(String),
      ...(status === 405 && { reason: "method_not_allowed" }),
    });
  });

  test("OPTIONS returns the methods, HEAD the headers of GET", async () => {
    await using server = await serve(flows());
    expect(await server.send("OPTIONS", "/flows")).toMatchObject({
      status: 204,
      headers: { allow: "GET, POST, HEAD, OPTIONS" },
      body: "",
    });
    const get = await server.send("GET", "/flows");
    const head = await server.send("HEAD", "/flows");
    expect(head).toMatchObject({
      status: 200,
      body: "",
      headers: { etag: '"r1"', "content-length": String(get.body.length) },
    });
  });

  test("an unknown query parameter is rejected", async () => {
    await using server = await serve(flows());
    expect(await server.send("GET", "/flows?x=1")).toMatchObject({ status: 400 });
    expect(await server.send("GET", "/flows?")).toMatchObject({ status: 200 });
  });
});

describe("variants", () => {
  test("differ in body, response_body and status", async () => {
    const { routes, deployed } = recordFlows();
    await using server = await serve({ routes });
    expect(await server.send("GET", "/flows")).toMatchObject({
      status: 200,
      body: '[{"id":"a","type":"tab","label":"A"}]',
    });
    expect(await server.send("GET", "/flows", { headers: v2 })).toMatchObject({
      status: 200,
      headers: { vary: "Service-API-Version" },
      body: '{"flows":[{"id":"a","type":"tab","label":"A"}],"rev":"r1"}',
    });
    expect(await server.send("POST", "/flows", { headers: json, body: "[]" })).toMatchObject({ status: 204, body: "" });
    const response = await server.send("POST", "/flows", {
      headers: { ...json, ...v2 },
      body: '{"flows":[],"rev":""}',
    });
    expect(response).toMatchObject({ status: 200, body: '{"rev":"r2"}' });
    expect(deployed.map(({ rev }) => rev)).toEqual([undefined, ""]);
  });

  test.each(["V1", "v3", "", "v1, v1", " v2x"])("%j is not a variant", async (version) => {
    const { routes, deployed } = recordFlows();
    await using server = await serve({ routes });
    for (const method of ["GET", "POST"]) {
      const reply = await server.send(method, "/flows", { headers: { ...json, "service-api-version": version } });
      expect([reply.status, JSON.parse(reply.body)]).toEqual([
        400,
        {
          code: "invalid_argument",
          reason: "invalid_api_version",
          message: "Service-API-Version: must be one of v1, v2",
        },
      ]);
    }
    expect(deployed).toEqual([]);
  });

  test("a header value with ignore_body accepts any body, or none", async () => {
    const { routes, deployed } = recordFlows();
    await using server = await serve({ routes });
    const headers = { "service-deployment-type": "reload" };
    expect(await server.send("POST", "/flows", { headers })).toMatchObject({ status: 204 });
    expect(
      await server.send("POST", "/flows", { headers: { ...headers, "content-type": "text/plain" }, body: "]" }),
    ).toMatchObject({ status: 204 });
    expect(deployed).toHaveLength(2);
  });
});

describe("bodies", () => {
  test.each([
    [{ "content-type": "application/json; charset=UTF-8" }, 204],
    [{ "content-type": "Application/JSON" }, 204],
    [{ "content-type": "application/vnd.flows+json" }, 204],
    [{ "content-type": "application/json; charset=utf-16" }, 415],
    [{ "content-type": "text/json" }, 415],
    [{ "content-type": "application/x-www-form-urlencoded" }, 415],
    [{ "content-type": "" }, 415],
    [{}, 415],
  ])("with %j are %i", async (headers, status) => {
    await using server = await serve(flows());
    const reply = await server.send("POST", "/flows", { headers: headers, body: "[]" });
    expect([reply.status, reply.headers["accept-post"]]).toEqual([
      status,
      status === 415 ? "application/json" : undefined,
    ]);
  });

  test.each([
    ["gzip", gzipSync],
    ["x-gzip", gzipSync],
    ["BR", brotliCompressSync],
    ["zstd", zstdCompressSync],
    ["identity", (text: string) => Buffer.from(text)],
  ])("are decompressed: %s", async (encoding, compress) => {
    const { routes, deployed } = recordFlows();
    await using server = await serve({ routes });
    const body = compress('[{"id":"a","type":"tab"}]');
    const reply = await server.send("POST", "/flows", { headers: { ...json, "content-encoding": encoding }, body });
    expect([reply.status, deployed[0]?.flows[0]?.id]).toEqual([204, "a"]);
  });

  test("over the limit are rejected, with and without Content-Length", async () => {
    await using server = await serve({ ...flows(), readMaxBytes: 10 });
    const body = `["${"x".repeat(20)}"]`;
    const announced = await server.send("POST", "/flows", {
      headers: { ...json, "content-length": String(body.length) },
      body,
    });
    const chunked = await server.send("POST", "/flows", { headers: { ...json, "transfer-encoding": "chunked" }, body });
    for (const reply of [announced, chunked]) {
      expect([reply.status, JSON.parse(reply.body)]).toEqual([
        413,
        { code: "resource_exhausted", reason: "payload_too_large", message: "the body is larger than 10 bytes" },
      ]);
    }
  });

  test("are rejected if the operation has none", async () => {
    await using server = await serve(flows());
    expect(
      await server.send("GET", "/flows", { headers: { ...json, "content-length": "2" }, body: "[]" }),
    ).toMatchObject({ status: 400 });
  });

  test.each([
    ["text/html", 406],
    ["application/json;q=0", 406],
    ["application/json;q=0, */*", 406],
    ["text/html, application/*;q=0.1", 200],
    ["*/*;q=0.1", 200],
    ["text/html, *; q=.2, */*; q=.2", 200],
    ["application/json;q=nonsense", 406],
    ["application/json;q=2", 406],
    ["application/json;q=0x1", 406],
    ["application/json;q=", 406],
  ])("with Accept: %s are %i", async (accept, status) => {
    await using server = await serve(flows());
    expect(await server.send("GET", "/flows", { headers: { accept } })).toMatchObject({ status });
    // A response without a body is always acceptable.
    expect(await server.send("POST", "/flows", { headers: { ...json, accept }, body: "[]" })).toMatchObject({
      status: 204,
    });
  });
});

describe("entity tags", () => {
  test.each([
    ['"r1"', 304],
    ['W/"r1"', 304],
    ['"x", "r1"', 304],
    ["*", 304],
    ['"r2"', 200],
    ["r1", 200],
  ])("If-None-Match: %s is %i", async (tag, status) => {
    await using server = await serve(flows());
    const reply = await server.send("GET", "/flows", { headers: { "if-none-match": tag } });
    expect(reply).toMatchObject({ status, headers: { etag: '"r1"' } });
    expect(reply.body === "").toBe(status === 304);
  });

  test("a frozen message is encoded once, any other each time", async () => {
    let encoded = 0;
    const node = create(GetFlowsResponseSchema, { flows: [{ id: "a", type: "t" }] }).flows;
    const counting = { toJSON: () => ++encoded };
    const frozen = Object.freeze(create(GetFlowsResponseSchema, { flows: node, rev: "1" }));
    const [only] = node;
    if (only !== undefined) {
      only.properties = { counting: counting as never };
    }
    await using server = await serve(flows({ getFlows: () => frozen }));
    const first = await server.send("GET", "/flows");
    expect((await server.send("GET", "/flows")).body).toBe(first.body);
    expect(encoded).toBe(1);
    await using thawed = await serve(flows({ getFlows: () => ({ flows: node, rev: "1" }) }));
    await thawed.send("GET", "/flows");
    await thawed.send("GET", "/flows");
    expect(encoded).toBe(3);
  });
});

describe("the gate", () => {
  const key = createContextKey("nobody");
  const refuse = (): never => {
    throw new ConnectError("no", Code.PermissionDenied, { "x-hint": "h" }, [
      { desc: UnauthorizedSchema, value: { challenge: 'Bearer realm="x"' } },
    ]);
  };

  test("rejects before the body is read, and before the request is validated", async () => {
    const { routes, deployed } = recordFlows();
    await using server = await serve({ routes, requestGate: refuse });
    const reply = await server.send("POST", "/flows", { headers: { ...json, "service-api-version": "v9" }, body: "{" });
    expect(reply).toMatchObject({
      status: 401,
      headers: { "www-authenticate": 'Bearer realm="x"', "x-hint": "h", "content-length": "0" },
      body: "",
    });
    expect(deployed).toEqual([]);
    // Only half of the body is sent, so a response that waited for the rest would never arrive.
    const socket = connect(server.port, "127.0.0.1");
    socket.write(
      "POST /flows HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n[",
    );
    const head = await new Promise<string>((resolve) => socket.once("data", (chunk) => resolve(chunk.toString())));
    expect(head).toMatch(/^HTTP\/1.1 401 .*connection: close/is);
    socket.destroy();
  });

  test("passes context values to interceptors and implementations, also asynchronously", async () => {
    await using server = await serve({
      routes: (router) => {
        router.rpc(ThingsService.method.getHeaders, (_request, context) => {
          context.responseHeader.set(
            "x-who",
            `${context.values.get(key)} ${context.requestHeader.get("x-name")} ${context.protocolName}`,
          );
          return {};
        });
      },
      contextValues: () => createContextValues().set(key, "somebody"),
      requestGate: async (context) => {
        await Promise.resolve();
        context.values.set(
          key,
          `${context.values.get(key)} ${context.url.replace(/:\d+\//, ":0/")} ${context.method.name}`,
        );
      },
    });
    const reply = await server.send("GET", "/things/headers", { headers: { "x-name": "n" } });
    expect(reply.headers["x-who"]).toBe("somebody http://127.0.0.1:0/things/headers GetHeaders n http");
  });
});

describe("interceptors", () => {
  const routes = (router: ConnectRouter): void => {
    router.rpc(ThingsService.method.getHeaders, (_request, context) => {
      context.responseHeader.set("x-seen", `${context.requestHeader.get("x-name")} ${context.requestMethod}`);
      return { count: 5 };
    });
  };

  test("run in Connect's order, and can pass on a copy with other headers", async () => {
    const order: string[] = [];
    await using server = await serve({
      routes,
      interceptors: [
        (next) => async (request) => {
          order.push("first");
          const header = new Headers(request.header);
          header.set("x-name", "changed");
          return next({ ...request, header });
        },
        (next) => async (request) => {
          order.push(
            `second ${request.header.get("x-name")} ${request.url.includes("/things/headers")} ${request.signal.aborted}`,
          );
          return next(request);
        },
      ],
    });
    const reply = await server.send("GET", "/things/headers", { headers: { "x-name": "original" } });
    expect(reply.headers).toMatchObject({ "x-seen": "changed GET", "x-count": "5" });
    expect(order).toEqual(["first", "second changed true false"]);
  });

  test("can return a copy of the response with other headers or another message", async () => {
    await using server = await serve({
      routes,
      interceptors: [
        (next) => async (request) => {
          const response = await next(request);
          return { ...response, header: new Headers({ "x-other": "o" }) };
        },
        (next) => async (request) => {
          const response = await next(request);
          return { ...response, header: response.header };
        },
      ],
    });
    const reply = await server.send("GET", "/things/headers");
    expect(reply.headers).toMatchObject({ "x-other": "o", "x-count": "5" });
    expect(reply.headers["x-seen"]).toBeUndefined();
  });

  const refuse = (): never => {
    throw new ConnectError("not now", Code.Unavailable);
  };

  test.each<[where: string, interceptors: Interceptor[]]>([
    ["the outer", [() => refuse, (next) => next]],
    ["the inner", [(next) => next, () => refuse]],
    [
      "the inner, which the outer receives as a rejection",
      [(next) => (request) => next(request).catch(refuse), () => refuse],
    ],
  ])("can throw synchronously: %s", async (_where, interceptors) => {
    await using server = await serve({ routes, interceptors });
    const reply = await server.send("GET", "/things/headers");
    expect([reply.status, JSON.parse(reply.body)]).toEqual([503, { code: "unavailable", message: "not now" }]);
  });

  test("receive a synchronous error of an implementation as a rejection", async () => {
    await using server = await serve({
      routes: (router) => {
        router.rpc(ThingsService.method.getHeaders, () => {
          throw new ConnectError("none", Code.NotFound);
        });
      },
      interceptors: [(next) => (request) => next(request).catch(refuse)],
    });
    expect(await server.send("GET", "/things/headers")).toMatchObject({ status: 503 });
  });

  test("the signal is aborted when the client disconnects", async () => {
    const { promise: started, resolve: start } = Promise.withResolvers<void>();
    const { promise: aborted, resolve: abort } = Promise.withResolvers<string>();
    await using server = await serve({
      routes: (router) => {
        router.rpc(ThingsService.method.getHeaders, async (_request, { signal }) => {
          signal.addEventListener("abort", () => abort("aborted"));
          start();
          await aborted;
          return {};
        });
      },
    });
    const socket = connect(server.port, "127.0.0.1");
    socket.write("GET /things/headers HTTP/1.1\r\nHost: x\r\n\r\n");
    await started;
    socket.destroy();
    expect(await aborted).toBe("aborted");
  });
});

describe("errors", () => {
  const failing = (error: unknown) =>
    flows({
      getFlows: () => {
        throw error;
      },
    });

  test.each<[error: unknown, status: number, body: object]>([
    [new ConnectError("gone", Code.NotFound), 404, { code: "not_found", message: "gone" }],
    [new ConnectError("late", Code.DeadlineExceeded), 504, { code: "deadline_exceeded", message: "late" }],
    [
      new ConnectError("no", Code.Aborted, undefined, [
        { desc: ErrorInfoSchema, value: { reason: "version_mismatch" } },
      ]),
      409,
      {
        code: "aborted",
        message: "no",
        reason: "version_mismatch",
        details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "version_mismatch" }],
      },
    ],
    [new Error("secret of the inside"), 500, { code: "internal", message: "internal error" }],
    ["text", 500, { code: "internal", message: "internal error" }],
  ])("%s is %i", async (error, status, body) => {
    await using server = await serve(failing(error));
    const reply = await server.send("GET", "/flows");
    expect([reply.status, JSON.parse(reply.body)]).toEqual([status, body]);
  });

  test("an unimplemented RPC is 501", async () => {
    await using server = await serve({ routes: withFlows({}) });
    expect(await server.send("GET", "/flows")).toMatchObject({ status: 501 });
  });

  test("hop-by-hop headers and those of other protocols are not sent", async () => {
    await using server = await serve(
      failing(
        new ConnectError("x", Code.NotFound, {
          "transfer-encoding": "chunked",
          "grpc-status": "5",
          "content-type": "text/plain",
          "x-a": "1",
        }),
      ),
    );
    const { headers } = await server.send("GET", "/flows");
    expect(headers).toMatchObject({ "x-a": "1", "content-type": "application/json" });
    expect(headers["grpc-status"]).toBeUndefined();
    expect(headers["transfer-encoding"]).toBeUndefined();
  });

  const issuing = (error?: ConnectError) => ({
    routes: (router: ConnectRouter): void => {
      router.rpc(AuthService.method.issueToken, () => {
        if (error !== undefined) {
          throw error;
        }
        return { accessToken: "t", expiresIn: 0, tokenType: "Bearer" };
      });
    },
  });

  test("a detail with the error option determines status, headers and body", async () => {
    const error = new ConnectError("x", Code.ResourceExhausted, undefined, [
      {
        desc: TokenErrorSchema,
        value: { error: TokenErrorReason.TEMPORARILY_UNAVAILABLE, errorDescription: "later", retryAfter: 7 },
      },
    ]);
    await using server = await serve(issuing(error));
    const reply = await server.send("POST", "/auth/token", { headers: form, body: "" });
    expect(reply).toMatchObject({
      status: 429,
      headers: { "retry-after": "7", "cache-control": "no-store" },
      body: '{"error":"temporarily_unavailable","error_description":"later"}',
    });
  });

  test.each([
    [form, "scope=a&scope=b", 400, "scope: set more than once"],
    [form, "scope[]=a", 400, "scope: is not a map, so it has no keys"],
    [json, '{"scope":{"a":1}}', 400, "scope: must be a string"],
    [json, '{"x":1,"x":1}', 400, "the request is malformed"],
    [json, "{", 400, "the body is not valid JSON: a key in double quotes was expected (line 1, column 2)"],
    [
      { "content-type": "text/plain" },
      "x",
      415,
      "the Content-Type must be application/x-www-form-urlencoded, application/json",
    ],
  ])(
    "request errors have the format of the method's request_error: %j %s",
    async (headers, body, status, description) => {
      await using server = await serve(issuing());
      const reply = await server.send("POST", "/auth/token", { headers: headers, body });
      expect([reply.status, JSON.parse(reply.body)]).toEqual([
        status,
        { error: "invalid_request", error_description: description },
      ]);
      expect(reply.headers["cache-control"]).toBe("no-store");
    },
  );

  test("ignore_unknown ignores unknown parameters, and `always` sends a zero", async () => {
    await using server = await serve(issuing());
    const response = { status: 200, body: '{"access_token":"t","expires_in":0,"token_type":"Bearer"}' };
    expect(await server.send("POST", "/auth/token", { headers: form, body: "x=1&x=2" })).toMatchObject(response);
    expect(await server.send("POST", "/auth/token", { headers: json, body: '{"x":{}}' })).toMatchObject(response);
  });

  test("a response with no_content has no body", async () => {
    await using server = await serve({
      routes: (router) => void router.rpc(AuthService.method.revokeToken, () => ({})),
    });
    const reply = await server.send("POST", "/auth/revoke", { headers: form, body: "token=t" });
    expect(reply).toMatchObject({ status: 200, headers: { "content-length": "0" }, body: "" });
    expect(reply.headers["content-type"]).toBeUndefined();
  });
});
