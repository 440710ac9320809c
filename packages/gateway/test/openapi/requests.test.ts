import { describe, expect, test } from "vitest";
import * as t from "../gen/t/v1/vectors_pb.ts";
import { ParcelSchema } from "../gen/gatewaytest/v1/anys_pb.ts";
import { RawService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "../gen/gatewaytest/v1/things_pb.ts";
import { FlowsService } from "../../../../gen/flowgate/v1/flows_pb.ts";
import { openapi, type OpenApiDocument } from "../../src/index.ts";
import type { OperationObject } from "../../src/openapi/document.ts";
import { problemOf, createSchemaCheck } from "../openapi-check.ts";
import { createMethod } from "../service.ts";
import {
  describeMethods,
  describeRule,
  describeService,
  get,
  info,
  only,
  openEnum,
  operationsOf,
  parametersOf,
  post,
  type Rule,
} from "./describe-operations.ts";

describe("a path", () => {
  test.each<[template: string, path: string, names: string[]]>([
    ["/v1/{message_id}", "/v1/{message_id}", ["message_id"]],
    ["/v1/{sub.subfield}/x", "/v1/{sub.subfield}/x", ["sub.subfield"]],
    ["/v1/{message_id=shelves/*}", "/v1/shelves/{shelf}", ["shelf"]],
    ["/v1/{message_id=shelves/*/boxes/*}:go", "/v1/shelves/{shelf}/boxes/{box}:go", ["shelf", "box"]],
    [
      "/v1/{message_id=secretVersions/*/entries/*}",
      "/v1/secretVersions/{secret_version}/entries/{entry}",
      ["secret_version", "entry"],
    ],
    ["/v1/{message_id=address/*/status/*}", "/v1/address/{address}/status/{status}", ["address", "status"]],
    ["/v1/{message_id=movies/*/leaves/*}", "/v1/movies/{movie}/leaves/{leaf}", ["movie", "leaf"]],
    [
      "/v1/{message_id=topSeries/*/statuses/*}",
      "/v1/topSeries/{top_series}/statuses/{status}",
      ["top_series", "status"],
    ],
    [
      "/v1/{message_id=message_id_2s/*/*}",
      "/v1/message_id_2s/{message_id_2}/{message_id_3}",
      ["message_id_2", "message_id_3"],
    ],
    ["/v1/{message_id=a/*/a/*}", "/v1/a/{a}/a/{message_id_2}", ["a", "message_id_2"]],
    ["/v1/{message_id=*/*}", "/v1/{message_id_1}/{message_id_2}", ["message_id_1", "message_id_2"]],
    ["/v1/{message_id=revisions/*}/{revision}", "/v1/revisions/{message_id}/{revision}", ["message_id", "revision"]],
    ["/v1/{message_id=**}", "/v1/{message_id}", ["message_id"]],
    ["/v1/*/x/**", "/v1/{segment_1}/x/{segment_2}", ["segment_1", "segment_2"]],
    ["/v1/{revision}:undelete", "/v1/{revision}:undelete", ["revision"]],
    ["/", "/", []],
  ])("%s is %s", async (template, path, names) => {
    const document = describeRule(t.GetMessageRequestSchema, get(template));
    expect(Object.keys(document.paths)).toEqual([path]);
    expect(Object.keys(parametersOf(document, "path"))).toEqual(names);
    expect(Object.values(parametersOf(document, "path")).every(({ required }) => required === true)).toBe(true);
    expect(await problemOf(document)).toBeUndefined();
  });

  test("has the schema of its field, and describes multi-segment variables", () => {
    expect(parametersOf(describeRule(t.GetMessageRequestSchema, get("/v1/{revision}")), "path")).toEqual({
      revision: { required: true, schema: { type: "string", format: "int64", pattern: "^-?(?:0|[1-9][0-9]*)$" } },
    });
    expect(parametersOf(describeRule(t.QueryMsgSchema, get("/v1/{enum_value}")), "path")).toEqual({
      enum_value: { required: true, schema: openEnum },
    });
    expect(parametersOf(describeRule(t.GetMessageRequestSchema, get("/v1/{message_id=a/**}")), "path")).toEqual({
      message_id: {
        required: true,
        description: "Part of `message_id`: `a/{message_id}`.\n\nZero or more segments, with unescaped slashes.",
        schema: { type: "string" },
      },
    });
  });

  test("has another name for a wildcard than generators have for the body", () => {
    const document = describeRule(t.UpdateMessageRequestSchema, {
      ...get("/v1/{message_id=messages/*}"),
      additionalBindings: [post("/v1/{message.message_id=messages/*}", "message")],
    });
    expect(operationsOf(document).map(([place]) => place)).toEqual([
      "GET /v1/messages/{message_id}",
      "POST /v1/messages/{message_id}",
    ]);
  });

  test("has descriptions that end no comment in generated code", () => {
    const comments = () => "Of shelves/*/books. Or */ of */all.";
    const method = createMethod(t.GetMessageRequestSchema, get("/v1/{message_id=shelves/*/books/**}"));
    const document = describeMethods([method], { comments });
    expect(JSON.stringify(document)).not.toContain("*/");
    expect(only(document).summary).toBe("Of shelves/* /books");
    expect(parametersOf(document, "path")["shelf"]?.["description"]).toBe(
      "Of shelves/* /books. Or * / of * /all.\n\nPart of `message_id`: `shelves/{shelf}/books/{message_id_2}`.",
    );
  });

  test("has the parameter names of the first of several equivalent paths", async () => {
    const rules = [
      { selector: `${ThingsService.typeName}.*` },
      { selector: `${ThingsService.typeName}.OpenThing`, ...get("/v1/{id}") },
      { selector: `${ThingsService.typeName}.SendForm`, pattern: { case: "delete", value: "/v1/{user_name}" } },
    ] as const;
    const document = describeService(ThingsService, { rules }, { connect: "none" });
    expect(operationsOf(document).map(([place, { parameters }]) => [place, parameters?.[0]?.name])).toEqual([
      ["GET /v1/{id}", "id"],
      ["DELETE /v1/{id}", "id"],
    ]);
    expect(await problemOf(document)).toBeUndefined();
  });
});

describe("a method", () => {
  test("has an operation for each route", () => {
    const document = describeRule(t.MessageSchema, {
      ...get("/a/{message_id}"),
      additionalBindings: [get("/b/{message_id}"), post("/a/{message_id}", "*")],
    });
    expect(operationsOf(document).map(([place, { operationId }]) => [place, operationId])).toEqual([
      ["GET /a/{message_id}", "EchoService_Echo"],
      ["POST /a/{message_id}", "EchoService_Echo_3"],
      ["GET /b/{message_id}", "EchoService_Echo_2"],
    ]);
  });

  test("that OpenAPI 3.1 does not support is described as in OpenAPI 3.2", async () => {
    const document = describeRule(t.MessageSchema, {
      pattern: { case: "custom", value: { kind: "PURGE", path: "/a" } },
    });
    expect(document.paths["/a"]).toEqual({
      "x-additionalOperations": { PURGE: expect.objectContaining({ operationId: "EchoService_Echo" }) },
    });
    expect(await problemOf(document)).toBeUndefined();
  });

  test("of any kind is described for the common methods without a rule of their own", () => {
    const any = { pattern: { case: "custom", value: { kind: "*", path: "/a" } } } as const;
    expect(operationsOf(describeRule(t.MessageSchema, any)).map(([place]) => place)).toEqual([
      "GET /a",
      "PUT /a",
      "POST /a",
      "DELETE /a",
      "PATCH /a",
    ]);
    expect(
      operationsOf(describeRule(t.MessageSchema, { ...any, body: "*", additionalBindings: [post("/a", "text")] })).map(
        ([place, { operationId }]) => [place, operationId],
      ),
    ).toEqual([
      ["PUT /a", "EchoService_Echo"],
      ["DELETE /a", "EchoService_Echo_2"],
      ["PATCH /a", "EchoService_Echo_3"],
      ["POST /a", "EchoService_Echo_4"],
    ]);
  });
});

describe("a query", () => {
  test("has the fields that are not bound to path or body", () => {
    const names = (rule: Rule) => Object.keys(parametersOf(describeRule(t.UpdateMessageRequestSchema, rule), "query"));
    expect(names(get("/m/{message_id}"))).toEqual(["message.messageId", "message.text", "updateMask", "note"]);
    expect(names(get("/m/{message.message_id}"))).toEqual(["messageId", "message.text", "updateMask", "note"]);
    expect(names(post("/m/{message_id}", "message"))).toEqual(["updateMask", "note"]);
    expect(names(post("/m/{message_id}", "*"))).toEqual([]);
  });

  test("describes the serialization of each kind of field", () => {
    const parameters = parametersOf(describeRule(t.QueryMsgSchema, get("/q")), "query");
    expect(parameters).toMatchObject({
      int32Value: { schema: { type: "integer", format: "int32" } },
      uint64Value: { schema: { type: "string", format: "uint64" } },
      boolValue: { schema: { type: "boolean" } },
      bytesValue: { description: "Bytes in base64.", schema: { type: "string" } },
      enumValue: { schema: openEnum },
      repeatedValue: { style: "form", explode: true, schema: { type: "array", items: { type: "string" } } },
      repeatedEnum: { schema: { type: "array", items: openEnum } },
      repeatedWrapper: { schema: { type: "array", items: { type: "string", format: "uint64" } } },
      timestampValue: { schema: { type: "string", format: "date-time" } },
      wrapperBoolValue: { schema: { type: "boolean" } },
      structValue: { content: { "application/json": { schema: { type: "object", additionalProperties: true } } } },
      mapValue: { style: "deepObject", schema: { type: "object", additionalProperties: { type: "string" } } },
      mapValue15: { schema: { propertyNames: { enum: ["true", "false"] } } },
      "kebab-name": { schema: { type: "string" } },
      oneofStringValue: { schema: { type: "string" } },
    });
    expect(Object.keys(parameters).filter((name) => /any|nested/i.test(name))).toEqual([]);
  });

  test("omits fields that can't be set by a query", () => {
    const document = openapi(
      {
        routes: (router) => router.service(FlowsService, {}),
        rules: Object.values(FlowsService.method)
          .filter(({ name }) => name !== "SetFlows")
          .map(({ name }) => ({ selector: `flowgate.v1.FlowsService.${name}` })),
      },
      { info, connect: "none" },
    );
    expect(only(document).parameters?.map(({ name, in: where }) => `${where} ${name}`)).toEqual([
      "header Service-API-Version",
      "header Service-Deployment-Type",
      "header Service-Deployment-Message",
      "header Idempotency-Key",
      "header Service-Deployment-Wait",
      "header Service-Deployment-On-Failure",
      "header Service-Deployment-Merge",
      "header Service-Deployment-Max-Errors",
      "header If-Match",
    ]);
  });
});

describe("a body", () => {
  const bodyOf = (document: OpenApiDocument) => only(document).requestBody;

  test("omits the fields of the path", () => {
    const document = describeRule(t.MessageSchema, post("/m/{message_id}", "*"));
    expect(bodyOf(document)).toEqual({
      required: false,
      content: { "application/json": { schema: { $ref: "#/components/schemas/MessageBody" } } },
    });
    expect(document.components.schemas).toMatchObject({
      Message: { type: "object", properties: { messageId: {}, text: {} } },
      MessageBody: { type: "object", properties: { text: { type: "string" } } },
    });
    expect(Object.keys(document.components.schemas["MessageBody"]?.["properties"] as object)).toEqual(["text"]);
  });

  test("of a single field is that field", () => {
    const contentOf = (field: string) =>
      bodyOf(describeRule(t.BodiesSchema, post("/b", field)))?.content["application/json"]?.schema;
    expect(contentOf("nums")).toEqual({ type: "array", items: { type: "integer", format: "int32" } });
    expect(contentOf("items")).toEqual({ type: "array", items: { $ref: "#/components/schemas/Message" } });
    expect(contentOf("count")).toMatchObject({ type: "string", format: "int64" });
    expect(bodyOf(describeRule(t.BodiesSchema, post("/b", "raw")))?.content).toEqual({
      "*/*": { schema: { description: "Raw bytes." } },
    });
  });

  test("is a form if the method consumes one", () => {
    const document = describeService(ThingsService);
    const form = document.paths["/things/form"]?.["post"] as OperationObject;
    expect(form.requestBody?.content).toEqual({
      "application/x-www-form-urlencoded": {
        schema: {
          type: "object",
          properties: {
            userName: { type: "string" },
            age: { type: "integer", format: "int32" },
            admin: { type: "boolean" },
            speed: { $ref: "#/components/schemas/Speed" },
          },
          additionalProperties: false,
        },
      },
    });
  });

  test("has files if it is multipart", () => {
    const attach = describeService(RawService).paths["/raw/attach"]?.["post"] as OperationObject;
    const file = { contentMediaType: "application/octet-stream" };
    expect(attach.requestBody?.content["multipart/form-data"]?.schema?.["properties"]).toEqual({
      title: { type: "string" },
      numbers: { type: "array", items: { type: "integer", format: "int32" } },
      note: { type: "string" },
      data: file,
      file,
      files: { type: "array", items: file },
    });
    expect(Object.keys(attach.requestBody?.content ?? {})).toEqual(["multipart/form-data", "application/json"]);
  });

  test("accepts an empty Any", () => {
    const body = ["paths", "/parcels", "post", "requestBody", "content", "application/json", "schema"];
    const method = createMethod(ParcelSchema, post("/parcels", "*"));
    const simple = createSchemaCheck(describeMethods([method]));
    expect(simple(body, { item: {}, items: [{ "@type": "type.googleapis.com/a.B", b: 1 }] })).toBeUndefined();
    expect(simple(body, { item: 1 })).toContain("must be object");
    const check = createSchemaCheck(describeMethods([method], { schemas: "exact" }));
    expect(check(body, { item: {}, items: [{ "@type": "type.googleapis.com/a.B", b: 1 }] })).toBeUndefined();
    expect(check(body, { item: { "@type": 1 } })).toContain("must be string");
  });

  test("of an open object accepts further keys, which others reject, in exact schemas", () => {
    const document = describeService(ThingsService, {}, { schemas: "exact" });
    const check = createSchemaCheck(document);
    const open = ["paths", "/things/open", "put", "requestBody", "content", "application/json", "schema"];
    expect(check(open, { id: "a", more: { deep: [1] }, note: 7 })).toBeUndefined();
    expect(check(open, { more: 1 })).toContain("must have required property 'id'");
    expect(check(open, { id: "a", tags: null })).toContain("must be array");
    expect(check(open, { id: null, note: null })).toBeUndefined();
    const echo = ["paths", "/things/echo", "post", "requestBody", "content", "application/json", "schema"];
    expect(check(echo, { text: "a", things: [{ inner: { left: "b" } }] })).toBeUndefined();
    expect(check(echo, { more: 1 })).toContain("must NOT have additional properties");
    expect(check(echo, { things: [{ inner: { left: "b", right: 1 } }] })).toContain(
      "must match exactly one schema in oneOf",
    );
    expect(check(echo, { speed: "fast", colour: "COLOUR_RED" })).toBeUndefined();
    expect(check(echo, { colour: 7 })).toBeUndefined();
    expect(check(echo, { colour: "RED" })).toContain("must be equal to one of the allowed values");
    expect(check(echo, { speed: 1 })).toContain("must be string");
    expect(check(echo, { speed: "SPEED_FAST" })).toContain("must be equal to one of the allowed values");
    expect(check(echo, { large: 1 })).toContain("must be string");
  });
});
