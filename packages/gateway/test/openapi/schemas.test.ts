import {
  create,
  createFileRegistry,
  fromBinary,
  toBinary,
  type DescMessage,
  type DescService,
} from "@bufbuild/protobuf";
import {
  DescriptorProtoSchema,
  FieldDescriptorProto_Label,
  FieldDescriptorProto_Type,
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
} from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { expect, test } from "vitest";
import { EchoThingResponseSchema, ThingSchema, ThingsService } from "../gen/gatewaytest/v1/things_pb.ts";
import { openapi, readComments } from "../../src/index.ts";
import { firstSentence } from "../../src/openapi/comments.ts";
import { createGateway } from "../../src/index.ts";
import { createSchemaCheck } from "../openapi-check.ts";
import { call, createMethod, createRequest } from "../service.ts";
import { codePoint } from "../code-point.ts";
import { propertyRuns } from "../property-runs.ts";

const info = { title: "Things", version: "1" };
const get = (value: string) => ({ pattern: { case: "get", value } }) as const;

const scalars = {
  text: fc.string({ unit: codePoint }),
  flag: fc.boolean(),
  small: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
  unsigned: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  large: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  unsignedLarge: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  ratio: fc.double(),
  single: fc.float(),
  data: fc.uint8Array(),
  colour: fc.constantFrom(0, 1, 7, -1),
  speed: fc.constantFrom(0, 1, 2),
  maybe: fc.string(),
  texts: fc.array(fc.string()),
  counts: fc.dictionary(
    fc.string().filter((key) => key !== "__proto__"),
    fc.integer({ min: 0, max: 9 }),
  ),
  choice: fc.oneof(
    fc.record({ case: fc.constant("left" as const), value: fc.string() }),
    fc.record({ case: fc.constant("right" as const), value: fc.integer({ min: 0, max: 9 }) }),
  ),
  at: fc.record({ seconds: fc.bigInt({ min: -62_135_596_800n, max: 253_402_300_799n }), nanos: fc.constant(0) }),
  wrapped: fc.string(),
  speeds: fc.array(fc.constantFrom(1, 2)),
  struct: fc.dictionary(
    fc.string().filter((key) => key !== "__proto__"),
    fc.constantFrom(null, 1, "a", true),
  ),
};
const thing = fc.letrec((tie) => ({
  thing: fc.record(
    {
      ...scalars,
      things: fc.array(tie("thing"), { maxLength: 2 }),
      inner: fc.option(tie("thing"), { nil: undefined, depthSize: "small" }),
    },
    { requiredKeys: [] },
  ),
})).thing;

test("the JSON of every message fits the exact schemas of request and response", async () => {
  const document = openapi({ routes: (router) => router.service(ThingsService, {}) }, { info, schemas: "exact" });
  const check = createSchemaCheck(document);
  const place = ["paths", "/things/echo", "post"];
  await fc.assert(
    fc.asyncProperty(thing, async (init) => {
      const message = create(ThingSchema, init as object);
      const gateway = createGateway({
        routes: (router) =>
          router.service(ThingsService, { echoThing: () => create(EchoThingResponseSchema, { thing: message }) }),
      });
      const { status, body } = await call({ gateway }, createRequest("POST", "/things/echo", "{}"));
      expect(status).toBe(200);
      expect(check([...place, "responses", "200", "content", "application/json", "schema"], body)).toBeUndefined();
      expect(check([...place, "requestBody", "content", "application/json", "schema"], body)).toBeUndefined();
    }),
    propertyRuns(100),
  );
});

test("simple schemas have what code generators understand, and nothing else", () => {
  const { components, paths } = openapi({ routes: (router) => router.service(ThingsService, {}) }, { info });
  const { Thing, Colour } = components.schemas as Record<string, { properties: Record<string, object> }>;
  expect(Thing).toMatchObject({
    description: expect.stringContaining("At most one of `left` and `right` is set."),
    "x-oneofs": { choice: ["left", "right"] },
    properties: {
      text: { type: "string" },
      unsigned: { type: "integer", format: "int64", minimum: 0, maximum: 4_294_967_295 },
      large: { type: "string", format: "int64" },
      ratio: { type: "number", format: "double" },
      data: { type: "string", format: "byte", contentEncoding: "base64" },
      inner: { $ref: "#/components/schemas/Thing" },
    },
  });
  expect(Colour).toMatchObject({ type: "string", enum: expect.arrayContaining(["COLOUR_RED"]) });
  const body = paths["/things/echo"]?.["post"] as { requestBody?: { content: object } };
  expect(body.requestBody?.content).toEqual({ "application/json": { schema: { $ref: "#/components/schemas/Thing" } } });
  const text = JSON.stringify(components.schemas);
  expect(text).not.toMatch(/"(?:oneOf|anyOf|not)":|"null"|"additionalProperties":false/);
  expect(Object.keys(components.schemas).filter((name) => /Input|_\d/.test(name))).toEqual([]);
});

/** Two messages of the same name in different packages, and one with the name of the error schema. */
function buildNamesakes(): DescMessage[] {
  const { STRING, MESSAGE } = FieldDescriptorProto_Type;
  const names = ["one", "two"].map((name) =>
    create(FileDescriptorProtoSchema, {
      name: `${name}.proto`,
      package: name,
      syntax: "proto3",
      messageType: [
        create(DescriptorProtoSchema, {
          name: "Thing",
          field: [{ name, number: 1, type: STRING, label: FieldDescriptorProto_Label.OPTIONAL, jsonName: name }],
        }),
        create(DescriptorProtoSchema, {
          name: "Error",
          field: [
            {
              name: "thing",
              number: 1,
              type: MESSAGE,
              typeName: `.${name}.Thing`,
              label: FieldDescriptorProto_Label.OPTIONAL,
              jsonName: "thing",
            },
          ],
        }),
      ],
    }),
  );
  const set = create(FileDescriptorSetSchema, { file: names });
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, toBinary(FileDescriptorSetSchema, set)));
  return ["one.Error", "two.Thing"].map((name) => registry.getMessage(name) as DescMessage);
}

test("a field named __proto__ has its schema", () => {
  const { STRING } = FieldDescriptorProto_Type;
  const file = create(FileDescriptorProtoSchema, {
    name: "odd.proto",
    syntax: "proto3",
    messageType: [{ name: "Odd", field: [{ name: "a", jsonName: "__proto__", number: 1, type: STRING }] }],
  });
  const odd = createFileRegistry(file, () => undefined).getMessage("Odd") as DescMessage;
  const method = createMethod(odd, get("/odd"));
  const document = openapi({ routes: (router) => router.rpc(method, () => ({})) }, { info });
  const { properties } = document.components.schemas["Odd"] as { properties: object };
  expect(Object.entries(properties)).toEqual([["__proto__", { type: "string" }]]);
});

test("types with equal short names have their full names", () => {
  const methods = buildNamesakes().map((message, index) => createMethod(message, get(`/${index}`)));
  const document = openapi(
    { routes: (router) => methods.forEach((method) => router.rpc(method, () => ({}))) },
    { info },
  );
  expect(Object.keys(document.components.schemas)).toEqual(["Error", "one.Error", "one.Thing", "two.Thing"]);
});

test("deprecated declarations are marked", () => {
  const options = { deprecated: true };
  const file = create(FileDescriptorProtoSchema, {
    name: "old.proto",
    package: "old",
    syntax: "proto3",
    messageType: [
      {
        name: "Old",
        options,
        field: [
          {
            name: "id",
            jsonName: "id",
            number: 1,
            type: FieldDescriptorProto_Type.STRING,
            label: FieldDescriptorProto_Label.OPTIONAL,
            options,
          },
        ],
      },
    ],
    service: [
      { name: "OldService", method: [{ name: "Call", inputType: ".old.Old", outputType: ".old.Old", options }] },
    ],
  });
  const service = createFileRegistry(file, () => undefined).getService("old.OldService") as DescService;
  const document = openapi(
    { routes: (router) => router.service(service, {}), rules: [{ selector: "*", ...get("/old") }] },
    { info },
  );
  expect(document.paths["/old"]?.["get"]).toMatchObject({
    deprecated: true,
    summary: "Call",
    parameters: [{ name: "id", in: "query", deprecated: true }],
  });
  expect(document.components.schemas["Old"]).toMatchObject({
    deprecated: true,
    properties: { id: { deprecated: true, type: "string" } },
  });
});

test("comments are found by full name, without directives for tools", () => {
  const set = create(FileDescriptorSetSchema, {
    file: [
      {
        name: "a.proto",
        package: "a",
        syntax: "proto3",
        messageType: [
          {
            name: "Outer",
            nestedType: [{ name: "Inner", enumType: [{ name: "Kind", value: [{ name: "NONE", number: 0 }] }] }],
            field: [
              {
                name: "one",
                number: 1,
                type: FieldDescriptorProto_Type.STRING,
                label: FieldDescriptorProto_Label.OPTIONAL,
                oneofIndex: 0,
              },
            ],
            oneofDecl: [{ name: "choice" }],
          },
        ],
        enumType: [{ name: "Plain", value: [{ name: "ZERO", number: 0 }] }],
        service: [{ name: "Calls", method: [{ name: "Call", inputType: ".a.Outer", outputType: ".a.Outer" }] }],
        sourceCodeInfo: {
          location: [
            { path: [4, 0], leadingComments: " The outer one.\n\n buf:lint:ignore NAME\n   - indented\n" },
            { path: [4, 0, 2, 0], trailingComments: " Behind it.\n" },
            { path: [4, 0, 8, 0], leadingComments: " A choice.\n" },
            { path: [4, 0, 3, 0], leadingComments: " The inner one.\n" },
            { path: [4, 0, 3, 0, 4, 0, 2, 0], leadingComments: " None.\n" },
            { path: [5, 0], leadingComments: " Plain.\n" },
            { path: [6, 0, 2, 0], leadingComments: " Calls.\n" },
          ],
        },
      },
    ],
  });
  const comments = readComments(set);
  const registry = createFileRegistry(set);
  const outer = registry.getMessage("a.Outer") as DescMessage;
  const inner = outer.nestedMessages[0] as DescMessage;
  const service = registry.getService("a.Calls");
  expect(comments(outer)).toBe("The outer one.\n\n  - indented");
  expect(outer.fields.map((field) => comments(field))).toEqual(["Behind it."]);
  expect(outer.oneofs.map((oneof) => comments(oneof))).toEqual(["A choice."]);
  expect(comments(inner)).toBe("The inner one.");
  expect(inner.nestedEnums.flatMap(({ values }) => values.map((value) => comments(value)))).toEqual(["None."]);
  expect(
    [...registry].flatMap((desc) => (desc.kind === "enum" && desc.name === "Plain" ? [comments(desc)] : [])),
  ).toEqual(["Plain."]);
  expect(service && [comments(service), ...service.methods.map((method) => comments(method))]).toEqual([
    undefined,
    "Calls.",
  ]);
});

test.each([
  ["Sets the flows. And more.", "Sets the flows"],
  ["Returns it; never a secret.", "Returns it"],
  ["One line\nand another", "One line and another"],
  ["Of RFC 6749, section 4.3).", "Of RFC 6749, section 4.3)"],
  ["See docs/api.md for more.", "See docs/api.md for more"],
  ["A paragraph\n\nand another.", "A paragraph"],
  ["", ""],
])("the summary of %j is %j", (comment, summary) => {
  expect(firstSentence(comment)).toBe(summary);
});
