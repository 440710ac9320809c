import { expect, test } from "vitest";
import * as t from "../gen/t/v1/vectors_pb.ts";
import { ConflictService } from "../gen/gatewaytest/v1/invalid_pb.ts";
import { RawService, StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "../gen/gatewaytest/v1/things_pb.ts";
import { FlowsService } from "../../../../gen/flowgate/v1/flows_pb.ts";
import { openapi, type OpenApiOptions } from "../../src/index.ts";
import type { OperationObject } from "../../src/openapi/document.ts";
import { problemOf, schemaPaths, createSchemaCheck } from "../openapi-check.ts";
import { createMethod } from "../service.ts";
import { describeMethods, describeRule, describeService, get, info, post, withoutSum } from "./describe-operations.ts";

test.each([
  ["ThingsService", () => describeService(ThingsService)],
  ["StreamsService", () => describeService(StreamsService, withoutSum)],
  ["RawService", () => describeService(RawService)],
  ["a query of every kind", () => describeRule(t.QueryMsgSchema, get("/q"))],
  ["a body of every kind", () => describeRule(t.QueryMsgSchema, post("/q", "*"))],
])("%s: the document is valid and deterministic, and its schemas compile", async (_name, make) => {
  const document = make();
  expect(await problemOf(document)).toBeUndefined();
  const check = createSchemaCheck(document);
  for (const path of schemaPaths(document)) {
    check(path, undefined);
  }
  expect(JSON.stringify(make())).toBe(JSON.stringify(document));
});

test("variants are distinguished by their titles, unless their schemas are equal", () => {
  const document = describeService(FlowsService, {}, { schemas: "exact" });
  const titles = (content: { schema?: { anyOf?: unknown } } | undefined) =>
    (content?.schema?.anyOf as { title: string }[] | undefined)?.map(({ title }) => title);
  const expected = ["Service-API-Version: v1", "Service-API-Version: v2"];
  const { get: read, post: write } = document.paths["/flows"] as Record<"get" | "post", OperationObject>;
  expect(titles(read.responses["200"]?.content?.["application/json"])).toEqual(expected);
  expect(titles(write.requestBody?.content["application/json"])).toEqual(expected);
  const { post: plan } = document.paths["/flows:plan"] as Record<"post", OperationObject>;
  expect(titles(plan.requestBody?.content["application/json"])).toEqual(expected);
  expect(plan.responses["200"]?.content?.["application/json"]?.schema).toEqual({
    $ref: "#/components/schemas/PlanFlowsResponse",
  });
  expect(Object.keys(write.responses)).toEqual(["200", "204", "default"]);
  expect(Object.keys(read.responses)).toEqual(["200", "304", "default"]);
});

test("in simple schemas, variants of which one is an array are any value, with the alternatives in an extension", () => {
  const schemaOf = (schemas: OpenApiOptions["schemas"] & {}) => {
    const read = describeService(FlowsService, {}, { schemas }).paths["/flows"]?.["get"] as OperationObject;
    return read.responses["200"]?.content?.["application/json"]?.schema;
  };
  const simple = schemaOf("simple");
  expect(Object.keys(simple ?? {})).toEqual(["description", "x-anyOf"]);
  expect({ anyOf: simple?.["x-anyOf"] }).toEqual(schemaOf("exact"));
});

test("rejects two RPCs that match the same requests", () => {
  expect(() => openapi({ routes: (router) => router.service(ConflictService, {}) }, { info })).toThrow(
    /CallTwo matches the same requests as .*ConflictService.CallOne$/,
  );
});

test.each<[examples: OpenApiOptions["examples"], message: string]>([
  [{ No_Such: {} }, "there are examples for No_Such, but no such operation"],
  [
    { EchoService_Echo: { request: { "application/json": { a: { value: 1 } } } } },
    "there are examples for EchoService_Echo, request, application/json, but it has no such content",
  ],
  [
    { EchoService_Echo: { responses: { 418: { "application/json": { a: { value: 1 } } } } } },
    "there are examples for EchoService_Echo, response 418, application/json, but it has no such content",
  ],
  [
    { EchoService_Echo: { parameters: { no: 1 } } },
    "there is an example for the parameter no of EchoService_Echo, but it has no such parameter",
  ],
])("rejects examples without a matching operation: %j", (examples, message) => {
  const method = createMethod(t.MessageSchema, get("/a"));
  expect(() => describeMethods([method], { examples: examples ?? {} })).toThrow(message);
});
