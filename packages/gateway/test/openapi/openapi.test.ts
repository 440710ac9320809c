import type { DescMessage, DescMethod, DescService, MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import type { HttpRuleSchema } from "../../gen/google/api/http_pb.ts";
import type { MethodRuleSchema } from "../../gen/flowgate/gateway/v1/annotations_pb.ts";
import * as t from "../gen/t/v1/vectors_pb.ts";
import { ParcelSchema } from "../gen/gatewaytest/v1/anys_pb.ts";
import { ConflictService } from "../gen/gatewaytest/v1/invalid_pb.ts";
import { RawService, StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "../gen/gatewaytest/v1/things_pb.ts";
import { FlowsService } from "../../../../gen/flowgate/v1/flows_pb.ts";
import {
  createGateway,
  openapi,
  presets,
  type OpenApiDocument,
  type OpenApiOptions,
  type GatewayOptions,
} from "../../src/index.ts";
import type { OperationObject, Parameter } from "../../src/openapi/document.ts";
import { problemOf, schemaPaths, createSchemaCheck } from "../openapi-check.ts";
import { readBroken } from "../read-broken.ts";
import { createMethod, createRequest } from "../service.ts";

type Rule = MessageInitShape<typeof HttpRuleSchema>;
const info = { title: "Things", version: "1" };

function describeService(
  service: DescService,
  handler: Partial<GatewayOptions> = {},
  options: Partial<OpenApiOptions> = {},
): OpenApiDocument {
  return openapi({ routes: (router) => router.service(service, {}), ...handler }, { info, ...options });
}

function describeMethods(methods: DescMethod[], options: Partial<OpenApiOptions> = {}): OpenApiDocument {
  return openapi(
    { routes: (router) => methods.forEach((method) => router.rpc(method as never, (() => ({})) as never)) },
    { info, ...options },
  );
}

/** A document of one RPC with this request and response message. */
function describeRule(message: DescMessage, rule: Rule, more: MessageInitShape<typeof MethodRuleSchema> = {}) {
  return describeMethods([createMethod(message, rule, more)]);
}

const withoutSum = { rules: [{ selector: `${StreamsService.typeName}.Sum` }], protocols: ["rest"] } as const;

/** The reference to an enum. */
const openEnum = { $ref: "#/components/schemas/EnumValue" };

const get = (value: string) => ({ pattern: { case: "get", value } }) as const satisfies Rule;
const post = (value: string, body: string) => ({ pattern: { case: "post", value }, body }) as const satisfies Rule;

function operationsOf(document: OpenApiDocument): [place: string, operation: OperationObject][] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]): [string, OperationObject] => [
      `${method.toUpperCase()} ${path}`,
      operation as OperationObject,
    ]),
  );
}

function only(document: OpenApiDocument): OperationObject {
  const [operation, another] = operationsOf(document);
  if (operation === undefined || another !== undefined) {
    throw new Error("not one operation");
  }
  return operation[1];
}

const parametersOf = (document: OpenApiDocument, where: Parameter["in"]) =>
  Object.fromEntries(
    (only(document).parameters ?? [])
      .filter((each) => each.in === where)
      .map(({ name, in: _where, ...rest }) => [name, rest]),
  );

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

describe("a response", () => {
  test("has its headers, its status, and requires fields with the option always", () => {
    const document = describeService(ThingsService);
    const headers = document.paths["/things/headers"]?.["get"] as OperationObject;
    expect(headers.responses["200"]?.headers).toEqual({ "X-Count": { schema: { type: "integer", format: "int32" } } });
    expect(headers.parameters).toEqual([
      { name: "X-Speed", in: "header", schema: { $ref: "#/components/schemas/Speed" } },
      { name: "X-Count", in: "header", schema: { type: "integer", format: "int32" } },
    ]);
    expect(document.components.schemas["GetHeadersResponse"]).toEqual({
      type: "object",
      properties: { speed: { $ref: "#/components/schemas/Speed" } },
    });
    const open = document.paths["/things/open"]?.["put"] as OperationObject;
    expect(Object.keys(open.responses)).toEqual(["201", "default"]);
    expect(document.components.schemas["OpenThingResponse"]).toMatchObject({
      required: ["tags"],
      additionalProperties: true,
    });
  });

  test("of a single field is that field; in exact schemas, or null for a message", () => {
    const schemaOf = (schemas: OpenApiOptions["schemas"] & {}) => {
      const { paths } = describeService(ThingsService, {}, { schemas });
      const echo = paths["/things/echo"]?.["post"] as OperationObject;
      return echo.responses["200"]?.content?.["application/json"]?.schema;
    };
    expect(schemaOf("simple")).toEqual({ $ref: "#/components/schemas/Thing" });
    expect(schemaOf("exact")).toEqual({ anyOf: [{ $ref: "#/components/schemas/Thing" }, { type: "null" }] });
  });

  test("without a body has no content", () => {
    const document = describeRule(t.MessageSchema, get("/a"), { status: 204 });
    expect(only(document).responses["204"]).toEqual({ description: "Success, without a body." });
  });

  test("has the statuses that the implementation chooses, with their bodies", () => {
    const otherStatuses = [{ status: 201, description: "It was created." }, { status: 204 }, { status: 303 }];
    const { responses } = only(describeRule(t.MessageSchema, get("/a"), { otherStatuses }));
    const { content } = responses["200"] ?? {};
    expect(content).toBeDefined();
    expect(responses).toMatchObject({
      200: { description: "Success." },
      201: { description: "It was created.", content },
      204: { description: "Success, without a body." },
      303: { description: "Success.", content },
    });
    expect(responses["204"]).not.toHaveProperty("content");
  });

  test("has a status once that is also the regular one", () => {
    const { responses } = only(
      describeRule(t.MessageSchema, get("/a"), { status: 201, otherStatuses: [{ status: 201 }] }),
    );
    expect(Object.keys(responses)).toEqual(["201", "default"]);
  });

  test.each([0, 199, 400])("can't have the other status %d", (status) => {
    expect(() => describeRule(t.MessageSchema, get("/a"), { otherStatuses: [{ status }] })).toThrow(
      `other_statuses can't have ${status}: the implementation can choose a status from 200 to 399`,
    );
  });

  test("that is a stream is described for each media type", () => {
    const document = describeService(StreamsService, withoutSum);
    const item = { $ref: "#/components/schemas/Item" };
    const list = document.paths["/streams/{shelf}/items"]?.["get"] as OperationObject;
    const error = { $ref: "#/components/schemas/Error" };
    const failure = { title: "error", type: "object", properties: { error }, required: ["error"] };
    const data = (schema: object) => ({ type: "string", contentMediaType: "application/json", contentSchema: schema });
    expect(list.responses["200"]?.content).toMatchObject({
      "application/x-ndjson": { schema: { type: "string" }, "x-itemSchema": { anyOf: [item, failure] } },
      "text/event-stream": {
        schema: { type: "string" },
        "x-itemSchema": {
          anyOf: [
            { properties: { data: data(item) }, required: ["data"] },
            { properties: { event: { const: "error" }, data: data(error) }, required: ["event", "data"] },
          ],
        },
      },
      "application/json": { schema: { type: "array", items: item } },
    });
    const chat = document.paths["/streams/chat"]?.["post"] as OperationObject;
    expect(chat.requestBody?.content).toMatchObject({
      "application/x-ndjson": { "x-itemSchema": { $ref: expect.any(String) } },
      "application/json": { schema: { type: "array", items: { $ref: expect.any(String) } } },
    });
    expect(Object.keys(chat.responses["200"]?.content ?? {})).toEqual(["application/x-ndjson"]);
    const download = document.paths["/streams/download/{name}"]?.["get"] as OperationObject;
    expect(Object.keys(download.responses["200"]?.content ?? {})).toEqual(["*/*"]);
  });

  test("that is an event stream has the id and the event that the method names", async () => {
    const rules = [
      {
        selector: `${StreamsService.typeName}.List`,
        options: { sse: { id: "count", event: "text" } },
      },
    ];
    const document = describeService(StreamsService, { rules });
    expect(await problemOf(document)).toBeUndefined();
    const operation = document.paths["/streams/{shelf}/items"]?.["get"] as OperationObject;
    expect(operation.responses["200"]?.content?.["text/event-stream"]?.["x-itemSchema"]).toMatchObject({
      anyOf: [
        {
          properties: {
            id: { type: "string", description: "`count` of the message." },
            event: { type: "string", description: "`text` of the message." },
            data: {},
          },
          required: ["data"],
        },
        { title: "error" },
      ],
    });
  });

  test.each([
    [{ streams: presets.grpcGateway.streams, errors: "status" }, "Status", ["result", "error"]],
    [{ streams: { json: "lines" }, errors: "problem" }, "Problem", [undefined, undefined]],
  ] as const)("that is a stream is framed as the options say: %j", async (options, name, keys) => {
    const document = describeService(StreamsService, options);
    expect(await problemOf(document)).toBeUndefined();
    const list = document.paths["/streams/{shelf}/items"]?.["get"] as OperationObject;
    const refs = ["Item", name].map((each) => ({ $ref: `#/components/schemas/${each}` }));
    expect(list.responses["200"]?.content?.["application/json"]).toMatchObject({
      schema: { type: "string" },
      "x-itemSchema": {
        anyOf: keys.map((key, index) => (key === undefined ? refs[index] : { properties: { [key]: refs[index] } })),
      },
    });
  });

  test.each<[accept: string, options: Pick<GatewayOptions, "streams"> & { errors?: "plain" | "status" | "google" }]>([
    ["application/x-ndjson", {}],
    ["application/x-ndjson", { errors: "status" }],
    ["application/x-ndjson", { errors: "google" }],
    ["text/event-stream", {}],
    ["text/event-stream", { errors: "google" }],
    ["application/json", { streams: { json: "results" } }],
    ["application/json", { streams: { json: "lines" }, errors: "status" }],
  ])("that is a failed stream matches its description: %s, %j", async (accept, options) => {
    const routes: GatewayOptions["routes"] = (router) =>
      router.service(StreamsService, {
        async *list() {
          yield { text: "a" };
          throw new ConnectError("m", Code.DataLoss);
        },
      });
    const request = createRequest("GET", "/streams/s/items");
    const { body } = await createGateway({ ...options, routes }).handle({ ...request, headers: { accept } });
    const text = await readBroken(body as AsyncIterable<string>);
    const items = accept === "text/event-stream" ? text.trim().split("\n\n").map(parseEvent) : parseLines(text);
    expect(items).toHaveLength(2);
    for (const [index, item] of items.entries()) {
      const path = ["paths", "/streams/{shelf}/items", "get", "responses", "200", "content", accept, "x-itemSchema"];
      const check = createSchemaCheck(describeService(StreamsService, options));
      expect(check([...path, "anyOf", String(index)], item)).toBeUndefined();
    }
  });

  test.each([
    ["plain", "application/json", { code: "a", message: "b" }],
    ["problem", "application/problem+json", { type: "about:blank", title: "a", status: 400, detail: "b", code: "c" }],
    ["status", "application/json", { code: 3, message: "b", details: [{ "@type": "type.googleapis.com/a.B" }] }],
    ["google", "application/json", { error: { code: 400, message: "b", status: "INVALID_ARGUMENT" } }],
  ] as const)("to a failure has the shape of the option: %s", async (errors, mediaType, value) => {
    const document = describeService(ThingsService, { errors });
    expect(await problemOf(document)).toBeUndefined();
    const path = ["paths", "/things/echo", "post", "responses", "default", "content", mediaType, "schema"];
    expect(createSchemaCheck(document)(path, value)).toBeUndefined();
    expect(createSchemaCheck(document)(path, {})).toContain("required property");
  });
});

const parseLines = (text: string): unknown[] =>
  text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as unknown);

/** The fields of an event. */
const parseEvent = (event: string): unknown => Object.fromEntries(event.split("\n").map((line) => line.split(": ", 2)));

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
