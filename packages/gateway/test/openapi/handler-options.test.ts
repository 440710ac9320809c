import { create, toJson, type DescMethod } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { openapi, type GatewayOptions } from "../../src/index.ts";
import { createFetchHandler } from "../../src/adapters/fetch/index.ts";
import { createNodeHandler } from "../../src/adapters/node/index.ts";
import type { OperationObject } from "../../src/openapi/document.ts";
import { StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { ThingSchema, ThingsService } from "../gen/gatewaytest/v1/things_pb.ts";
import { problemOf } from "../openapi-check.ts";
import { createEcho, createMethod, createRequest, call } from "../service.ts";

const info = { title: "Things", version: "1" };
const routes: GatewayOptions["routes"] = (router) => router.service(ThingsService, {});

function operationAt(handler: GatewayOptions, path: string, method: string): OperationObject {
  return openapi(handler, { info }).paths[path]?.[method] as OperationObject;
}

test("an options object feeds a handler and its document, and its routes run once", async () => {
  let calls = 0;
  const options = {
    routes: (router: Parameters<GatewayOptions["routes"]>[0]) => {
      calls++;
      router.service(ThingsService, {});
    },
    requestPathPrefix: "/api",
    errors: "problem",
    unknownPath: "pass",
  } as const;
  createNodeHandler(options);
  const handler = createFetchHandler(options);
  const document = openapi(options, { info });
  openapi(options, { info, connect: "all" });
  expect(calls).toBe(1);
  expect(Object.keys(document.paths)).toEqual(expect.arrayContaining(["/api/things/echo"]));
  expect(document.components.schemas).toHaveProperty("Problem");
  expect(await problemOf(document)).toBeUndefined();
  const response = await handler(new Request("http://a.example/api/things/echo", { method: "POST", body: "{}" }));
  expect(response?.headers.get("content-type")).toBe("application/problem+json");
  expect(await handler(new Request("http://a.example/things/echo", { method: "POST", body: "{}" }))).toBeUndefined();
});

test.each<[handler: object, options: object, message: string]>([
  [{ error: "plain" }, {}, "there is no option error; did you mean errors?"],
  [{ errors: "rfc" }, {}, 'the option errors must be "plain", "problem", "status", "google" or a function, not "rfc"'],
  [{}, { server: [] }, "there is no option server; did you mean servers?"],
  [{}, { errors: "plain" }, "errors is an option of the handler, which is the first argument"],
  [{}, { info: { title: "A" } }, "the option info must be an object with title and version, not an object"],
  [{}, { info: undefined }, "the option info is missing: it must be an object with title and version"],
  [
    {},
    { security: [{ selector: "*" }] },
    "the option security[0].requirements is missing: it must be an array of objects",
  ],
  [
    {},
    { security: [{ selectors: "*" }] },
    "there is no option security[0].selectors; did you mean security[0].selector?",
  ],
  [{}, { validation: "all" }, 'the option validation must be "keywords", "descriptions" or "none", not "all"'],
  [{ errors: () => ({}) }, {}, "errors are formatted by a function: describe their body by the option errorBody"],
  [
    { errors: "status" },
    { errorBody: { mediaType: "text/plain", schema: {} } },
    'the option errorBody requires errors formatted by a function; the option errors of the handler is "status"',
  ],
])("%j and %j are rejected: %s", (handler, options, message) => {
  expect(() => openapi({ routes, ...handler }, { info, ...options })).toThrow(new Error(message));
});

test("the body of errors that a function formats is described by the option", () => {
  const errorBody = { mediaType: "application/x.error+json", schema: { type: "object", title: "Mine" } };
  const document = openapi({ routes, errors: () => ({}) }, { info, errorBody });
  const operation = document.paths["/things/echo"]?.["post"] as OperationObject;
  expect(operation.responses["default"]?.content).toEqual({
    "application/x.error+json": { schema: { $ref: "#/components/schemas/Error" } },
  });
  expect(document.components.schemas["Error"]).toEqual(errorBody.schema);
});

test("the prefix of the Fastify plugin is part of the paths", () => {
  const { paths } = openapi({ routes, prefix: "/v9", requestPathPrefix: "/api" }, { info });
  expect(paths).toHaveProperty(["/v9/api/things/echo"]);
});

test("only the protocols of the handler are described", () => {
  const pathsOf = (protocols: GatewayOptions["protocols"] & {}) =>
    Object.keys(openapi({ routes, protocols }, { info }).paths);
  expect(pathsOf(["rest"])).toContain("/things/echo");
  expect(pathsOf(["rest"]).filter((path) => path.includes("ThingsService"))).toEqual([]);
  expect(pathsOf(["grpc", "connect"])).toContain("/gatewaytest.v1.ThingsService/EchoThing");
  expect(pathsOf(["connect"])).not.toContain("/things/echo");
  expect(pathsOf(["grpc"])).toEqual([]);
});

describe("a form", () => {
  test.each<[handler: Partial<GatewayOptions>, additional: boolean | undefined]>([
    [{}, false],
    [{ jsonOptions: { ignoreUnknownFields: true } }, undefined],
    [{ unknownQuery: "ignore" }, undefined],
  ])("with %j accepts unknown fields as the handler does", async (handler, additional) => {
    const { requestBody } = operationAt({ routes, ...handler }, "/things/form", "post");
    const schema = requestBody?.content["application/x-www-form-urlencoded"]?.schema;
    expect(schema?.["additionalProperties"]).toBe(additional);
    const rule = { pattern: { case: "post", value: "/f" }, body: "*" } as const;
    const echo = createEcho(ThingSchema, rule, handler, { consumes: ["application/x-www-form-urlencoded"] });
    const request = createRequest("POST", "/f", "nothing=1", "application/x-www-form-urlencoded");
    expect(await call(echo, request)).toMatchObject({ status: additional === false ? 400 : 200 });
  });
});

test("query parameters that the handler ignores are left out", () => {
  const rule = { pattern: { case: "get", value: "/q" } } as const;
  const echo: GatewayOptions["routes"] = (router) => router.rpc(createMethod(ThingSchema, rule), () => ({}));
  const names = (ignoredQuery: string[]) =>
    operationAt({ routes: echo, ignoredQuery }, "/q", "get").parameters?.map(({ name }) => name);
  expect(names([])).toContain("small");
  expect(names(["small"])).not.toContain("small");
});

test("the limit of bodies is described if it is set", () => {
  const described = (readMaxBytes?: number) =>
    operationAt({ routes, ...(readMaxBytes === undefined ? {} : { readMaxBytes }) }, "/things/echo", "post").requestBody
      ?.description;
  expect(described()).toBeUndefined();
  expect(described(1000)).toBe("At most 1000 bytes; a larger body is rejected with 413.");
});

test("the preferred format of streams is the first", () => {
  const types = (preferred: "ndjson" | "sse" | "json") => {
    const handler: GatewayOptions = { routes: (router) => router.service(StreamsService, {}), streams: { preferred } };
    return Object.keys(operationAt(handler, "/streams/{shelf}/items", "get").responses["200"]?.content ?? {});
  };
  expect(types("ndjson")).toEqual(["application/x-ndjson", "text/event-stream", "application/json"]);
  expect(types("sse")).toEqual(["text/event-stream", "application/x-ndjson", "application/json"]);
  expect(types("json")[0]).toBe("application/json");
});

test("the JSON options that a service is registered with are those of its schemas", async () => {
  const method = (name: string): DescMethod & { methodKind: "unary" } =>
    createMethod(ThingSchema, { pattern: { case: "post", value: `/${name}` }, body: "*" });
  const jsonOptions = { useProtoFieldName: true };
  const thing = create(ThingSchema, { unsignedLarge: 1n });
  const handler: GatewayOptions = {
    routes: (router) => {
      router.rpc(method("a"), () => thing);
      router.rpc(method("b"), () => thing, { jsonOptions });
    },
  };
  const { components, paths } = openapi(handler, { info });
  const propertiesAt = (path: string): object => {
    const operation = paths[path]?.["post"] as OperationObject;
    const schema = operation.responses["200"]?.content?.["application/json"]?.schema as { $ref: string };
    return components.schemas[schema.$ref.split("/").at(-1) ?? ""]?.["properties"] as object;
  };
  expect(propertiesAt("/a")).toHaveProperty("unsignedLarge");
  expect(propertiesAt("/b")).toHaveProperty("unsigned_large");
  expect(Object.keys(toJson(ThingSchema, thing, jsonOptions) as object)).toEqual(["unsigned_large"]);
});
