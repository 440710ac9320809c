import { create, fromJson, setExtension, type DescMessage, type JsonValue } from "@bufbuild/protobuf";
import {
  FieldDescriptorProto_Label,
  FieldDescriptorProto_Type,
  FieldOptionsSchema,
  MessageOptionsSchema,
  OneofOptionsSchema,
} from "@bufbuild/protobuf/wkt";
import { createValidator } from "@bufbuild/protovalidate";
import {
  field as fieldExtension,
  FieldRulesSchema,
  Ignore,
  message as messageExtension,
  MessageRulesSchema,
  oneof as oneofExtension,
  OneofRulesSchema,
} from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { expect, test } from "vitest";
import { openapi, type GatewayOptions, type OpenApiDocument, type OpenApiOptions } from "../../src/index.ts";
import { createSchemaCheck, problemOf, schemaPaths } from "../openapi-check.ts";
import { createMethod } from "../service.ts";
import { buildMessage, messageOf, type Kind, type Rules } from "./ruled-message.ts";

function describeMessage(
  message: DescMessage,
  options: Partial<OpenApiOptions> = {},
  handler: Partial<GatewayOptions> = {},
): OpenApiDocument {
  const method = createMethod(message, { pattern: { case: "post", value: "/v" }, body: "*" });
  const routes: GatewayOptions["routes"] = (router) => router.rpc(method, () => ({}));
  return openapi({ routes, ...handler }, { info: { title: "Values", version: "1" }, ...options });
}

type Property = Record<string, unknown> & { description?: string };
const propertyOf = (document: OpenApiDocument, name: string = "Value"): Property =>
  (document.components.schemas[name] as { properties: { value: Property } }).properties.value;

const body = ["paths", "/v", "post", "requestBody", "content", "application/json", "schema"];
const validator = createValidator();

const rulesOf = (type: NonNullable<Rules["type"]>, more: Rules = {}): Rules => ({ type, ...more });
const string = (value: object, more?: Rules) => rulesOf({ case: "string", value }, more);
const repeated = (value: object) => rulesOf({ case: "repeated", value });
const int32 = (value: object, more?: Rules) => rulesOf({ case: "int32", value }, more);
const double = (value: object) => rulesOf({ case: "double", value });

/** Rules with keywords, and values that are valid and invalid by them. */
const withKeywords: [
  keywords: object,
  kind: Kind,
  rules: Rules,
  valid: JsonValue[],
  invalid: JsonValue[],
  label?: "many" | "optional",
][] = [
  [{ minLength: 2, maxLength: 3 }, "STRING", string({ minLen: 2n, maxLen: 3n }), ["ab", "a😀"], ["a", "abcd"]],
  [{ minLength: 2, maxLength: 2 }, "STRING", string({ len: 2n }), ["ab"], ["a", "abc"]],
  [{ pattern: "^a+$" }, "STRING", string({ pattern: "^a+$" }), ["aa"], ["b"]],
  [{ pattern: "^a\\.\\(" }, "STRING", string({ prefix: "a.(" }), ["a.(b"], ["ab(b", "xa.(b"]],
  [{ pattern: "z\\$$" }, "STRING", string({ suffix: "z$" }), ["az$"], ["z$a"]],
  [{ pattern: "a/b" }, "STRING", string({ contains: "a/b" }), ["xa/by"], ["ab"]],
  [{ enum: ["a", "b"] }, "STRING", string({ in: ["a", "b"] }), ["a"], ["c"]],
  [{ enum: ["a"] }, "STRING", string({ const: "a" }), ["a"], ["b"]],
  [{ format: "email" }, "STRING", string({ wellKnown: { case: "email", value: true } }), ["a@b.example"], ["a"]],
  [{ format: "hostname" }, "STRING", string({ wellKnown: { case: "hostname", value: true } }), ["a.example"], ["a_"]],
  [{ format: "ipv4" }, "STRING", string({ wellKnown: { case: "ipv4", value: true } }), ["127.0.0.1"], ["::1"]],
  [{ format: "ipv6" }, "STRING", string({ wellKnown: { case: "ipv6", value: true } }), ["::1"], ["127.0.0.1"]],
  [{ format: "uri" }, "STRING", string({ wellKnown: { case: "uri", value: true } }), ["https://a.example/"], ["/a"]],
  [{ format: "uri-reference" }, "STRING", string({ wellKnown: { case: "uriRef", value: true } }), ["/a"], ["\\"]],
  [
    { format: "uuid" },
    "STRING",
    string({ wellKnown: { case: "uuid", value: true } }),
    ["6a0e1b5c-9d5f-4b0e-8f6c-1a2b3c4d5e6f"],
    ["6a0e"],
  ],
  [
    { pattern: "^[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}$" },
    "STRING",
    string({ wellKnown: { case: "ulid", value: true } }),
    ["01ARZ3NDEKTSV4RRFFQ69G5FAV"],
    ["91ARZ3NDEKTSV4RRFFQ69G5FAV"],
  ],
  [{ minLength: 1 }, "STRING", { required: true }, ["a"], [""]],
  [{}, "STRING", { required: true }, [""], [null], "optional"],
  [
    { minimum: 2, maximum: 4 },
    "INT32",
    int32({ greaterThan: { case: "gte", value: 2 }, lessThan: { case: "lt", value: 5 } }),
    [2, 4],
    [1, 5],
  ],
  [{ minimum: 3 }, "INT32", int32({ greaterThan: { case: "gt", value: 2 } }), [3], [2]],
  [{ enum: [1, 2] }, "INT32", int32({ in: [1, 2] }), [1], [3]],
  [
    { maximum: 7, minimum: 0 },
    "UINT32",
    rulesOf({ case: "uint32", value: { lessThan: { case: "lte", value: 7 } } }),
    [0, 7],
    [8],
  ],
  [
    { exclusiveMinimum: 0.5, maximum: 1 },
    "DOUBLE",
    double({ greaterThan: { case: "gt", value: 0.5 }, lessThan: { case: "lte", value: 1 } }),
    [0.6, 1],
    [0.5, 1.1],
  ],
  [{ enum: ["5", "6"] }, "INT64", rulesOf({ case: "int64", value: { in: [5n, 6n] } }), ["5"], ["7"]],
  [
    { minItems: 1, maxItems: 2 },
    "INT32",
    repeated({ minItems: 1n, maxItems: 2n }),
    [[1], [1, 1]],
    [[], [1, 2, 3]],
    "many",
  ],
  [{ uniqueItems: true }, "STRING", repeated({ unique: true }), [["a", "b"]], [["a", "a"]], "many"],
  [
    { items: { type: "string", maxLength: 1 } },
    "STRING",
    repeated({ items: string({ maxLen: 1n }) }),
    [["a"]],
    [["ab"]],
    "many",
  ],
  [{ minItems: 1 }, "INT32", { required: true }, [[1]], [[]], "many"],
];

test.each(withKeywords)(
  "%j: the schema accepts what protovalidate does (%s)",
  async (keywords, kind, rules, valid, invalid, label) => {
    const message = messageOf(kind, rules, label);
    expect(propertyOf(describeMessage(message))).toMatchObject(keywords);
    const document = describeMessage(message, { schemas: "exact" });
    expect(await problemOf(document)).toBeUndefined();
    const check = createSchemaCheck(document);
    const verdicts = (value: JsonValue) => {
      const json = value === null ? {} : { value };
      return {
        schema: check(body, json) === undefined,
        rules: validator.validate(message, fromJson(message, json)).kind,
      };
    };
    for (const value of valid) {
      expect({ value, ...verdicts(value) }).toEqual({ value, schema: true, rules: "valid" });
    }
    for (const value of invalid) {
      expect({ value, ...verdicts(value) }).toEqual({ value, schema: false, rules: "invalid" });
    }
  },
);

test.each<[description: string, kind: Kind, rules: Rules, label?: "many"]>([
  ['Must satisfy `string.not_in = ["a"]`.', "STRING", string({ notIn: ["a"] })],
  ['Must satisfy `string.max_bytes = "9"`.', "STRING", string({ maxBytes: 9n })],
  ['Must satisfy `string.pattern = "(?i)a"`.', "STRING", string({ pattern: "(?i)a" })],
  ['Must satisfy `string.suffix = "b"`.', "STRING", string({ prefix: "a", suffix: "b" })],
  [
    "Must satisfy `int32.lt = 2`.\n\nMust satisfy `int32.gt = 5`.",
    "INT32",
    int32({ lessThan: { case: "lt", value: 2 }, greaterThan: { case: "gt", value: 5 } }),
  ],
  [
    'Must satisfy `int64.gte = "2"`.',
    "INT64",
    rulesOf({ case: "int64", value: { greaterThan: { case: "gte", value: 2n } } }),
  ],
  ['Must satisfy `enum.in = ["A","B"]`.', "ENUM", rulesOf({ case: "enum", value: { in: [1, 2] } })],
  ["Must satisfy `bool.const = false`.", "BOOL", rulesOf({ case: "bool", value: { const: false } })],
  [
    "Must satisfy `timestamp.lt_now = true`.",
    "MESSAGE",
    rulesOf({ case: "timestamp", value: { lessThan: { case: "ltNow", value: true } } }),
  ],
  ["Must not be empty, 0 or false.\n\nRequired in requests.", "INT32", { required: true }],
  ["It is even.", "INT32", { cel: [{ id: "even", message: "It is even.", expression: "this % 2 == 0" }] }],
  ["Must satisfy `this % 2 == 0`.", "INT32", { cel: [{ id: "even", expression: "this % 2 == 0" }] }],
])("a rule without keywords is described: %s", async (description, kind, rules, label) => {
  const document = describeMessage(messageOf(kind, rules, label));
  expect(propertyOf(document).description).toBe(description);
  expect(await problemOf(document)).toBeUndefined();
});

test("a rule of the zero value, which may be ignored or written, is described", () => {
  const ignoring = messageOf("STRING", string({ minLen: 3n, maxLen: 5n }, { ignore: Ignore.IF_ZERO_VALUE }));
  expect(propertyOf(describeMessage(ignoring))).toEqual({
    type: "string",
    maxLength: 5,
    description: 'Must satisfy `string.min_len = "3"`.',
  });
  const written = messageOf("INT32", int32({ greaterThan: { case: "gt", value: 0 } }));
  const handler = { jsonOptions: { alwaysEmitImplicit: true } };
  expect(propertyOf(describeMessage(written, {}, handler))).not.toHaveProperty("minimum");
  expect(propertyOf(describeMessage(written))).toMatchObject({ minimum: 1 });
  const off = messageOf("STRING", string({ minLen: 3n }, { ignore: Ignore.ALWAYS }));
  expect(propertyOf(describeMessage(off))).toEqual({ type: "string" });
});

test("rules are keywords, descriptions or nothing, by the option; exact schemas of responses have none", () => {
  const message = messageOf("STRING", string({ maxLen: 3n, example: ["ab"] }, { required: true }));
  expect(propertyOf(describeMessage(message))).toEqual({
    type: "string",
    minLength: 1,
    maxLength: 3,
    examples: ["ab"],
    description: "Required in requests.",
  });
  expect(propertyOf(describeMessage(message, { validation: "descriptions" }))).toMatchObject({
    type: "string",
    description: expect.stringContaining('Must satisfy `string.max_len = "3"`.'),
  });
  expect(propertyOf(describeMessage(message, { validation: "none" }))).toEqual({ type: "string" });
  const exact = describeMessage(message, { schemas: "exact" });
  expect(propertyOf(exact, "Value")).toEqual({ type: "string" });
  expect(propertyOf(exact, "ValueInput")).toMatchObject({ maxLength: 3 });
  expect(exact.components.schemas["ValueInput"]).toMatchObject({
    required: ["value"],
    description: "The message is good.",
  });
});

test("parameters have the rules of their fields", () => {
  const message = messageOf("STRING", string({ maxLen: 3n, notIn: ["a"] }, { required: true }));
  const parametersOf = (value: string) => {
    const method = createMethod(message, { pattern: { case: "get", value } });
    const document = openapi(
      { routes: (router) => router.rpc(method, () => ({})) },
      { info: { title: "Values", version: "1" } },
    );
    return Object.values(document.paths).map((item) => (item["get"] as { parameters?: unknown }).parameters);
  };
  const expected = {
    name: "value",
    required: true,
    description: 'Must satisfy `string.not_in = ["a"]`.',
    schema: { type: "string", minLength: 1, maxLength: 3 },
  };
  expect(parametersOf("/v")).toEqual([[{ ...expected, in: "query" }]]);
  expect(parametersOf("/v/{value}")).toEqual([[{ ...expected, in: "path" }]]);
});

test.each<[key: "STRING" | "INT32", keys: Rules, keywords: object]>([
  ["STRING", string({ maxLen: 3n }), { propertyNames: { maxLength: 3 } }],
  ["INT32", int32({ in: [1, 2] }), { propertyNames: { pattern: "^-?[0-9]+$" } }],
])("keys of a map, which are strings in JSON, have the rules of strings only: %s", async (key, keys, keywords) => {
  const rules = rulesOf({
    case: "map",
    value: { maxPairs: 2n, keys, values: int32({ lessThan: { case: "lte", value: 5 } }) },
  });
  const options = create(FieldOptionsSchema);
  setExtension(options, fieldExtension, create(FieldRulesSchema, rules));
  const label = FieldDescriptorProto_Label.OPTIONAL;
  const { MESSAGE, INT32 } = FieldDescriptorProto_Type;
  const message = buildMessage(
    {
      name: "m.proto",
      package: "m",
      syntax: "proto3",
      dependency: ["buf/validate/validate.proto"],
      messageType: [
        {
          name: "Map",
          field: [
            {
              name: "value",
              jsonName: "value",
              number: 1,
              type: MESSAGE,
              typeName: ".m.Map.ValueEntry",
              label: FieldDescriptorProto_Label.REPEATED,
              options,
            },
          ],
          nestedType: [
            {
              name: "ValueEntry",
              options: { mapEntry: true },
              field: [
                { name: "key", number: 1, type: FieldDescriptorProto_Type[key], label },
                { name: "value", number: 2, type: INT32, label },
              ],
            },
          ],
        },
      ],
    },
    "m.Map",
  );
  const document = describeMessage(message);
  expect(propertyOf(document, "Map")).toMatchObject({
    maxProperties: 2,
    additionalProperties: { type: "integer", maximum: 5 },
    ...keywords,
  });
  expect(await problemOf(document)).toBeUndefined();
});

test("a oneof and a group of fields can require one of their members", async () => {
  const oneofOptions = create(OneofOptionsSchema);
  setExtension(oneofOptions, oneofExtension, create(OneofRulesSchema, { required: true }));
  const options = create(MessageOptionsSchema);
  const group = { fields: ["first_name", "d"], required: true };
  setExtension(options, messageExtension, create(MessageRulesSchema, { oneof: [group] }));
  const label = FieldDescriptorProto_Label.OPTIONAL;
  const type = FieldDescriptorProto_Type.STRING;
  const message = buildMessage(
    {
      name: "o.proto",
      package: "o",
      syntax: "proto3",
      dependency: ["buf/validate/validate.proto"],
      messageType: [
        {
          name: "Choice",
          options,
          oneofDecl: [{ name: "choice", options: oneofOptions }],
          field: [
            { name: "a", jsonName: "a", number: 1, type, label, oneofIndex: 0 },
            { name: "b", jsonName: "b", number: 2, type, label, oneofIndex: 0 },
            { name: "first_name", jsonName: "firstName", number: 3, type, label },
            { name: "d", jsonName: "d", number: 4, type, label },
          ],
        },
      ],
    },
    "o.Choice",
  );
  expect(describeMessage(message).components.schemas["Choice"]?.["description"]).toBe(
    "Exactly one of `a` and `b` is set.\n\nExactly one of `firstName`, `d` is set.",
  );
  const document = describeMessage(message, { schemas: "exact" });
  expect(await problemOf(document)).toBeUndefined();
  const check = createSchemaCheck(document);
  expect(check(body, { b: "x" })).toBeUndefined();
  expect(check(body, {})).toContain("must match exactly one schema in oneOf");
  expect(
    check(["paths", "/v", "post", "responses", "200", "content", "application/json", "schema"], {}),
  ).toBeUndefined();
  for (const path of schemaPaths(document)) {
    check(path, undefined);
  }
});
