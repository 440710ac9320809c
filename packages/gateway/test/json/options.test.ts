import { create, createRegistry, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import {
  createJsonEncoder,
  createGateway,
  openapi,
  presets,
  setEncodedField,
  type JsonOptions,
} from "../../src/index.ts";
import { createRestTransport } from "../../src/client/index.ts";
import { createFetchHandler } from "../../src/adapters/fetch/index.ts";
import { BodiesSchema, QueryMsgSchema } from "../gen/t/v1/vectors_pb.ts";
import { callUnary } from "../client/captured.ts";
import { call, createMethod, createRequest } from "../service.ts";

const rule = { pattern: { case: "get", value: "/q" } } as const;

async function respond<Desc extends DescMessage>(
  jsonOptions: JsonOptions,
  desc: Desc,
  init: MessageInitShape<Desc>,
): Promise<unknown> {
  const gateway = createGateway({
    jsonOptions,
    registry: createRegistry(QueryMsgSchema),
    routes: (router) => router.rpc(createMethod(desc, rule), () => create(desc, init)),
  });
  return (await call({ gateway }, createRequest("GET", "/q"))).body;
}

const zero = { id: "", name: "", count: "0", nums: [], items: [], labels: {}, kind: "X" };
const unset = { raw: null, attrs: null, wrapped: null };

test.each<[options: JsonOptions, body: object]>([
  [{}, {}],
  [{ alwaysEmitImplicit: true }, zero],
  [
    { alwaysEmitImplicit: true, enumAsInteger: true },
    { ...zero, kind: 0 },
  ],
  [{ emitUnsetMessages: true }, unset],
  [presets.grpcGateway.jsonOptions, { ...zero, ...unset }],
  [presets.vanguard.jsonOptions, { ...zero, ...unset }],
])("an empty message with %j", async (options, body) => {
  expect(await respond(options, BodiesSchema, {})).toEqual(body);
});

test("neither optional fields nor members of a oneof are written with their default value", async () => {
  const body = await respond({ alwaysEmitImplicit: true, emitUnsetMessages: true }, QueryMsgSchema, {});
  expect(body).toMatchObject({ nested: null, wrapperBoolValue: null, timestampValue: null, mapValue: {} });
  for (const name of ["optionalValue", "oneofStringValue", "oneofNested"]) {
    expect(body).not.toHaveProperty(name);
  }
});

const nested = {
  enumValue: 1,
  customName: "a",
  repeatedEnum: [2, 0],
  oneofValue: { case: "oneofBoolValue", value: true },
};
const written = { enum_value: 1, repeated_enum: [2, 0], oneof_bool_value: true, custom_name: "a" };

test("proto names and numbers of enums are written at every level, and in an Any", async () => {
  const options = { enumAsInteger: true, useProtoFieldName: true };
  const anyValue = anyPack(QueryMsgSchema, create(QueryMsgSchema, nested as object));
  expect(await respond(options, QueryMsgSchema, { ...(nested as object), nested: nested as object, anyValue })).toEqual(
    { ...written, nested: written, any_value: { "@type": "type.googleapis.com/t.v1.QueryMsg", ...written } },
  );
});

const wide = {
  int64Value: 42n,
  uint64Value: 18446744073709551615n,
  sint64Value: -9007199254740993n,
  fixed64Value: 9007199254740991n,
  wrapperInt64Value: -9223372036854775808n,
  repeatedWrapper: [{ value: 1n }, { value: 9007199254740993n }],
};

const wideNumbers =
  '"int64Value":42,"uint64Value":18446744073709551615,"sint64Value":-9007199254740993,"fixed64Value":9007199254740991,' +
  '"repeatedWrapper":[1,9007199254740993],"wrapperInt64Value":-9223372036854775808';

test("64-bit integers are written as numbers, exactly, over REST and Connect, also in an Any", async () => {
  const anyValue = anyPack(QueryMsgSchema, create(QueryMsgSchema, { int64Value: 9007199254740993n }));
  const held = '{"@type":"type.googleapis.com/t.v1.QueryMsg","int64Value":9007199254740993}';
  const handle = createFetchHandler({
    jsonOptions: { int64AsNumber: true },
    registry: createRegistry(QueryMsgSchema),
    routes: (router) =>
      router.rpc(createMethod(QueryMsgSchema, rule), () => create(QueryMsgSchema, { ...wide, anyValue })),
  });
  const overRest = await handle(new Request("http://api.example/q"));
  expect(await overRest.text()).toBe(`{${wideNumbers},"anyValue":${held}}`);
  const init = { method: "POST", headers: { "content-type": "application/json" }, body: "{}" };
  const overConnect = await handle(new Request("http://api.example/echo.v1.EchoService/Echo", init));
  expect(await overConnect.text()).toBe(`{${wideNumbers},"anyValue":${held}}`);
});

test("64-bit integers in error details remain strings, which no error format rounds", async () => {
  const gateway = createGateway({
    jsonOptions: { int64AsNumber: true },
    routes: (router) =>
      router.rpc(createMethod(QueryMsgSchema, rule), () => {
        throw new ConnectError("no", Code.NotFound, undefined, [{ desc: QueryMsgSchema, value: wide }]);
      }),
  });
  expect((await call({ gateway }, createRequest("GET", "/q"))).body).toMatchObject({
    details: [{ int64Value: "42", uint64Value: "18446744073709551615" }],
  });
});

test("a field that is encoded beforehand has the same names", async () => {
  const jsonOptions = { useProtoFieldName: true };
  const encode = createJsonEncoder(QueryMsgSchema, { jsonOptions });
  const message = create(QueryMsgSchema, { stringValue: "a" });
  const gateway = createGateway({
    jsonOptions,
    routes: (router) =>
      router.rpc(createMethod(QueryMsgSchema, rule), () =>
        setEncodedField(message, "nested", encode(create(QueryMsgSchema, { stringValue: "a" }))),
      ),
  });
  expect((await call({ gateway }, createRequest("GET", "/q"))).body).toEqual({
    string_value: "a",
    nested: { string_value: "a" },
  });
});

test("error details are written with the options", async () => {
  const gateway = createGateway({
    errors: "status",
    jsonOptions: { useProtoFieldName: true },
    routes: (router) =>
      router.rpc(createMethod(QueryMsgSchema, rule), () => {
        throw new ConnectError("no", Code.NotFound, undefined, [{ desc: QueryMsgSchema, value: { stringValue: "a" } }]);
      }),
  });
  expect((await call({ gateway }, createRequest("GET", "/q"))).body).toMatchObject({
    details: [{ "@type": "type.googleapis.com/t.v1.QueryMsg", string_value: "a" }],
  });
});

test("the REST transport reads what all options write", async () => {
  const method = createMethod(QueryMsgSchema, rule);
  const message = create(QueryMsgSchema, { ...(nested as object), ...wide });
  const handler = createFetchHandler({
    jsonOptions: {
      alwaysEmitImplicit: true,
      emitUnsetMessages: true,
      enumAsInteger: true,
      int64AsNumber: true,
      useProtoFieldName: true,
    },
    routes: (router) => router.rpc(method, () => message),
  });
  const transport = createRestTransport({
    baseUrl: "http://api.example",
    fetch: (input, init) => handler(new Request(input, init)) as Promise<Response>,
  });
  expect(await callUnary({ transport }, method, {})).toEqual(message);
});

test("exact schemas of OpenAPI describe responses as they are written, and requests as before", () => {
  const method = createMethod(QueryMsgSchema, { pattern: { case: "post", value: "/q" }, body: "*" });
  const document = openapi(
    {
      routes: (router) => router.rpc(method, () => ({})),
      jsonOptions: {
        alwaysEmitImplicit: true,
        emitUnsetMessages: true,
        enumAsInteger: true,
        int64AsNumber: true,
        useProtoFieldName: true,
      },
    },
    { info: { title: "", version: "" }, schemas: "exact" },
  );
  const operation = document.paths["/q"]?.["post"] as unknown as {
    requestBody: { content: Record<string, { schema: { $ref: string } }> };
    responses: Record<string, { content: Record<string, { schema: { $ref: string } }> }>;
  };
  const schemas = document.components?.schemas as Record<string, { properties: object; required?: string[] }>;
  const schemaOf = (content: Record<string, { schema: { $ref: string } }> | undefined) =>
    schemas[content?.["application/json"]?.schema.$ref.split("/").at(-1) ?? ""];
  const response = schemaOf(operation.responses["200"]?.content);
  expect(response?.properties).toMatchObject({
    custom_name: { type: "string" },
    int64_value: { type: "integer", format: "int64" },
    repeated_wrapper: { type: "array", items: { type: "integer", format: "uint64" } },
    nested: { anyOf: [{ $ref: expect.any(String) }, { type: "null" }] },
  });
  expect(response?.required).toEqual(expect.arrayContaining(["enum_value", "map_value", "nested"]));
  expect(response?.required).not.toContain("optional_value");
  const request = schemaOf(operation.requestBody.content);
  expect(request?.properties).toMatchObject({
    "kebab-name": { type: ["string", "null"] },
    int64Value: { type: ["string", "null"], format: "int64" },
    repeatedWrapper: { items: { type: "string" } },
  });
  expect(request?.required).toBeUndefined();
  expect(Object.values(schemas)).toContainEqual({ type: "integer", format: "int32" });
});
