import type { DescMessage } from "@bufbuild/protobuf";
import { UninterpretedOptionSchema } from "@bufbuild/protobuf/wkt";
import type { HandlerContext } from "@connectrpc/connect";
import fc from "fast-check";
import { fastify } from "fastify";
import { describe, expect, test } from "vitest";
import { FlowsService, type SetFlowsRequest } from "../../../../../../gen/flowgate/v1/flows_pb.ts";
import { ThingSchema } from "../../../gen/gatewaytest/v1/things_pb.ts";
import { fastifyGatewayPlugin } from "../../../../src/adapters/fastify/index.ts";
import { createGateway } from "../../../../src/index.ts";
import { json, serve, type Send } from "../../../serve.ts";
import { createMethod, createRequest } from "../../../service.ts";
import { propertyRuns } from "../../../property-runs.ts";

const v2 = { ...json, "service-api-version": "v2" };

function flows(rev?: string, get?: (context: HandlerContext) => void) {
  const { routes } = recordFlows(rev, get);
  return { routes };
}

function recordFlows(rev = "r1", get: (context: HandlerContext) => void = () => {}) {
  const deployed: SetFlowsRequest[] = [];
  return {
    deployed,
    routes: (router: Parameters<NonNullable<Parameters<typeof serve>[0]["routes"]>>[0]) =>
      void router.service(FlowsService, {
        getFlows: (_request, context) => {
          get(context);
          return { flows: [], rev };
        },
        setFlows: (request) => {
          deployed.push(request);
          return { rev: "r2" };
        },
      }),
  };
}

describe("If-None-Match", () => {
  test.each([
    ['"r1"', 304],
    ['W/"r1"', 304],
    ['"a,b" , "r1"', 304],
    ['"r1", ', 304],
    ["*", 304],
    [" * ", 304],
    ['"r1', 200],
    ['x"r1"', 200],
    ["r1", 200],
    ['"R1"', 200],
    ["", 200],
    ['"r1" "r2"', 200],
  ])("%s is %i", async (header, status) => {
    await using server = await serve(flows());
    const reply = await server.send("GET", "/flows", { headers: { "if-none-match": header } });
    expect([reply.status, reply.headers["etag"]]).toEqual([status, '"r1"']);
  });

  test("is 304 for HEAD, too, with the headers of the corresponding 200", async () => {
    await using server = await serve(
      flows("r1", ({ responseHeader }) => {
        responseHeader.set("cache-control", "max-age=5");
      }),
    );
    for (const method of ["GET", "HEAD"]) {
      const reply = await server.send(method, "/flows", { headers: { "if-none-match": '"r1"' } });
      expect(reply).toMatchObject({ status: 304, body: "", headers: { etag: '"r1"', "cache-control": "max-age=5" } });
      expect(Object.keys(reply.headers).toSorted()).toEqual([
        "cache-control",
        "connection",
        "date",
        "etag",
        "keep-alive",
        "vary",
      ]);
    }
  });

  test.each(["", 'a"b', "a b", "é", "a\r\nb"])("a value that can't be an entity tag is omitted: %j", async (rev) => {
    await using server = await serve(flows(rev));
    const reply = await server.send("GET", "/flows", { headers: { "if-none-match": "*" } });
    expect([reply.status, reply.headers["etag"]]).toEqual([200, undefined]);
  });
});

describe("the field of the option etag", () => {
  const createService = (desc: DescMessage, etag: string, response: Record<string, unknown>) => ({
    gateway: createGateway({
      routes: (router) =>
        router.rpc(createMethod(desc, { pattern: { case: "get", value: "/x" } }, { etag }), () => response),
    }),
  });

  test.each<
    [what: string, desc: DescMessage, etag: string, response: Record<string, unknown>, tag: string | undefined]
  >([
    ["an unset optional field", ThingSchema, "maybe", {}, undefined],
    ["an empty optional field", ThingSchema, "maybe", { maybe: "" }, undefined],
    ["a set optional field", ThingSchema, "maybe", { maybe: "r1" }, '"r1"'],
    ["the text undefined", ThingSchema, "maybe", { maybe: "undefined" }, '"undefined"'],
    ["zero without presence", ThingSchema, "large", {}, '"0"'],
    ["an unset number with presence", UninterpretedOptionSchema, "positive_int_value", {}, undefined],
    ["zero with presence", UninterpretedOptionSchema, "positive_int_value", { positiveIntValue: 0n }, '"0"'],
  ])("%s", async (_what, desc, etag, response, tag) => {
    const { gateway } = createService(desc, etag, response);
    for (const requested of ["undefined", "", "0", "r1"]) {
      const request = { ...createRequest("GET", "/x"), headers: { "if-none-match": `"${requested}"` } };
      const { status, headers } = await gateway.handle(request);
      expect([status, headers["etag"]]).toEqual([tag === `"${requested}"` ? 304 : 200, tag]);
    }
  });

  test("can't be a member of a oneof", () => {
    expect(() => createService(ThingSchema, "left", {})).toThrow(
      'gatewaytest.v1.Thing has no scalar field "left" for the ETag',
    );
  });
});

describe("If-Match", () => {
  const post = (send: Send, ifMatch: string, version: "v1" | "v2" = "v1", body = "[]") =>
    send("POST", "/flows", { headers: { ...(version === "v1" ? json : v2), "if-match": ifMatch }, body });

  test.each([
    ['"r1"', "r1"],
    ['"r1-gzip"', "r1"],
    ['"r1", "r1-br"', "r1"],
    ['W/"r0", "r1"', "r1"],
    ["*", undefined],
    [undefined, undefined],
  ])("%s sets the revision to %s", async (ifMatch, rev) => {
    const { routes, deployed } = recordFlows();
    await using server = await serve({ routes });
    const headers = { ...json, ...(ifMatch === undefined ? {} : { "if-match": ifMatch }) };
    expect((await server.send("POST", "/flows", { headers, body: "[]" })).status).toBe(204);
    expect(deployed.map((request) => request.rev)).toEqual([rev]);
  });

  test.each([
    ['W/"r1"', 412, "failed_precondition", "If-Match: a weak entity tag never matches"],
    ['"r1", "r2"', 400, "invalid_argument", "If-Match: must be a single entity tag"],
    ["r1", 400, "invalid_argument", 'If-Match: must be an entity tag in double quotes, or "*"'],
    ["", 400, "invalid_argument", 'If-Match: must be an entity tag in double quotes, or "*"'],
    ['"r1', 400, "invalid_argument", 'If-Match: must be an entity tag in double quotes, or "*"'],
  ])("%s is %i, and nothing is deployed", async (ifMatch, status, code, message) => {
    const { routes, deployed } = recordFlows();
    await using server = await serve({ routes });
    const reply = await post(server.send, ifMatch);
    expect([reply.status, JSON.parse(reply.body), deployed]).toEqual([
      status,
      { code, message, ...(status === 412 && { reason: "precondition_failed" }) },
      [],
    ]);
  });

  test.each(["v1", "v1-gzip", "v1-identity", "v1-br-zstd"])(
    "is the inverse of the ETag of every content coding: %s",
    async (rev) => {
      const seen: unknown[] = [];
      const method = (value: string, verb: "get" | "put", more: object) => ({
        ...createMethod(ThingSchema, { pattern: { case: verb, value }, body: verb === "put" ? "*" : "" }, more),
        name: verb,
      });
      const gateway = createGateway({
        compression: { minBytes: 0 },
        routes: (router) =>
          router
            .rpc(method("/x", "get", { etag: "text" }), () => ({ text: rev }))
            .rpc(method("/x", "put", { ifMatch: "text" }), (request) => {
              seen.push((request as { text?: string }).text);
              return {};
            }),
      });
      const responses = [];
      for (const encoding of ["identity", "gzip", "br", "zstd"]) {
        const get = { ...createRequest("GET", "/x"), headers: { "accept-encoding": encoding } };
        const { etag } = (await gateway.handle(get)).headers;
        const matched = { ...get, headers: { ...get.headers, "if-none-match": String(etag) } };
        expect((await gateway.handle(matched)).status).toBe(304);
        const put = createRequest("PUT", "/x", "{}");
        await gateway.handle({ ...put, headers: { ...put.headers, "if-match": String(etag) } });
        responses.push(etag);
      }
      expect(seen).toEqual([rev, rev, rev, rev]);
      expect(new Set(responses).size).toBe(4);
    },
  );

  test("must equal the field of the body", async () => {
    const { routes, deployed } = recordFlows();
    await using server = await serve({ routes });
    const same = await post(server.send, '"r1"', "v2", '{"flows":[],"rev":"r1"}');
    const absent = await post(server.send, '"r1"', "v2", '{"flows":[]}');
    const any = await post(server.send, "*", "v2", '{"flows":[],"rev":"r0"}');
    expect([same.status, absent.status, any.status]).toEqual([200, 200, 200]);
    expect(deployed.map((request) => request.rev)).toEqual(["r1", "r1", "r0"]);
    for (const rev of ["r2", ""]) {
      const other = await post(server.send, '"r1"', "v2", JSON.stringify({ flows: [], rev }));
      expect([other.status, JSON.parse(other.body)]).toEqual([
        400,
        { code: "invalid_argument", reason: "invalid_flows", message: "If-Match and rev differ" },
      ]);
    }
    expect(deployed).toHaveLength(3);
  });
});

describe("an arbitrary request header", () => {
  const name = fc.constantFrom(
    "accept",
    "accept-encoding",
    "if-match",
    "if-none-match",
    "grpc-timeout",
    "connect-timeout-ms",
    "x-server-timeout",
    "origin",
    "access-control-request-method",
  );
  const token = fc.constantFrom(
    "gzip",
    "br",
    "*",
    ";q=",
    "0",
    "1.0",
    ",",
    '"',
    "W/",
    "r1",
    "application/json",
    "S",
    " ",
  );
  const value = fc.oneof(fc.string(), fc.string({ unit: token }), fc.constantFrom("__proto__", "constructor"));

  test("does not result in a 500", async () => {
    const gateway = createGateway({ routes: flows().routes, cors: { origins: ["https://app.example"] } });
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom("GET", "HEAD", "OPTIONS", "POST", "PUT"),
        fc.dictionary(name, value),
        async (httpMethod, headers) => {
          const { status } = await gateway.handle({
            httpMethod,
            httpVersionMajor: 1,
            target: "/flows",
            headers: { ...headers, ...json },
            url: () => "http://localhost/flows",
            contextValues: () => undefined,
            onAbort: () => {},
            hasBody: () => httpMethod === "POST",
            readBody: async () => Buffer.from("[]"),
            streamBody: async function* () {},
          });
          // 504: a timeout of 0.
          expect([200, 204, 304, 400, 405, 406, 412, 504]).toContain(status);
        },
      ),
      propertyRuns(2000),
    );
  });
});

describe("Vary", () => {
  test("is one header that includes the value set by Fastify hooks", async () => {
    await using app = fastify();
    app.addHook("onRequest", async (_request, reply) => {
      reply.header("vary", "Origin").header("x-hook", "1");
    });
    app.register(fastifyGatewayPlugin, { routes: flows().routes });
    const reply = await app.inject({ method: "GET", url: "/flows" });
    expect([reply.headers["vary"], reply.headers["x-hook"]]).toEqual(["Service-API-Version, Origin", "1"]);
  });
});
