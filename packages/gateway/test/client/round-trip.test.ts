import {
  create,
  toJson,
  type DescField,
  type DescMessage,
  type Message,
  type MessageInitShape,
} from "@bufbuild/protobuf";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import type { HttpRuleSchema } from "../../gen/google/api/http_pb.ts";
import type { MethodRuleSchema } from "../../gen/flowgate/gateway/v1/annotations_pb.ts";
import { createRestTransport } from "../../src/client/index.ts";
import { anyMessage, anyTypes } from "../any-message.ts";
import { ItemSchema } from "../gen/gatewaytest/v1/streams_pb.ts";
import { ThingSchema } from "../gen/gatewaytest/v1/things_pb.ts";
import { QueryMsgSchema, type QueryMsg } from "../gen/t/v1/vectors_pb.ts";
import { serve } from "../serve.ts";
import { createMethod } from "../service.ts";
import { callUnary } from "./captured.ts";
import { propertyRuns } from "../property-runs.ts";

type Rule = MessageInitShape<typeof HttpRuleSchema>;
type More = MessageInitShape<typeof MethodRuleSchema>;

/** A server that returns each request of a method, and a function that calls it through the REST transport. */
async function serveEcho(desc: DescMessage, rule: Rule, more: More = {}) {
  const method = createMethod(desc, rule, more);
  const seen: Message[] = [];
  const server = await serve({
    registry: anyTypes,
    routes: (router) =>
      router.rpc(method, (request: Message) => {
        seen.push(request);
        return request;
      }),
  });
  const transport = createRestTransport({
    baseUrl: `http://127.0.0.1:${server.port}`,
    jsonOptions: { registry: anyTypes },
    query: { maps: true },
  });
  return {
    call: (message: Message) => callUnary({ transport }, method, message),
    seen,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

const json = (desc: DescMessage, message: Message): object => toJson(desc, message, { registry: anyTypes }) as object;
const isAny = ({ name }: DescField): boolean => name === "any_value";
/** Can't be set by parameters. */
const isUnbound = (field: DescField): boolean => field.name === "repeated_nested" || isAny(field);
/** Values without the option `name` are not accepted. */
const isStrictEnum = ({ name }: DescField): boolean => name === "speed" || name === "speeds";

/** Removes the nested messages without fields, which parameters can't represent. Returns whether any field is left. */
function prune(message: Record<string, unknown>): boolean {
  const { nested, oneofValue } = message as { nested?: Record<string, unknown>; oneofValue?: QueryMsg["oneofValue"] };
  if (nested !== undefined && !prune(nested)) {
    message["nested"] = undefined;
  }
  if (oneofValue?.case === "oneofNested" && !prune(oneofValue.value)) {
    message["oneofValue"] = { case: undefined };
  }
  return Object.keys(json(QueryMsgSchema, message as unknown as Message)).length > 0;
}

const post = (value: string, body: string): Rule => ({ pattern: { case: "post", value }, body });

/** Messages that parameters can represent. */
const parameters = anyMessage(QueryMsgSchema, { without: isUnbound }).map((message) => {
  prune(message);
  return message;
});

/** Messages whose fields in paths are set. */
const withPaths = (isQuery: boolean): fc.Arbitrary<Message> =>
  anyMessage(QueryMsgSchema, { without: isAny }).map((any) => {
    const message = any as QueryMsg;
    message.stringValue = pathText(message.stringValue);
    message.bytesValue = Uint8Array.of(255, 254, 253, ...message.bytesValue);
    message.timestampValue ??= { $typeName: "google.protobuf.Timestamp", seconds: 1n, nanos: 1 };
    message.nested ??= create(QueryMsgSchema);
    message.nested.stringValue = pathText(message.nested.stringValue);
    if (isQuery) {
      message.nested.repeatedNested = [];
      if (message.oneofValue.case === "oneofNested") {
        message.oneofValue.value.repeatedNested = [];
      }
      prune(message);
    }
    return message;
  });

test.each<[name: string, desc: DescMessage, messages: fc.Arbitrary<Message>, rule: Rule, more?: More]>([
  ["a body", QueryMsgSchema, anyMessage(QueryMsgSchema), post("/q", "*")],
  [
    "a body, with the options of fields",
    ThingSchema,
    anyMessage(ThingSchema, { without: isStrictEnum }),
    post("/q", "*"),
  ],
  [
    "a field that is the body of request and response",
    QueryMsgSchema,
    anyMessage(QueryMsgSchema).map((nested) => create(QueryMsgSchema, { nested: nested as QueryMsg })),
    { ...post("/q", "nested"), responseBody: "nested" },
  ],
  ["a query", QueryMsgSchema, parameters, { pattern: { case: "get", value: "/q" } }],
  ["a form", QueryMsgSchema, parameters, post("/q", "*"), { consumes: ["application/x-www-form-urlencoded"] }],
  ["a multipart form", QueryMsgSchema, parameters, post("/q", "*"), { consumes: ["multipart/form-data"] }],
  [
    "path, query and body",
    QueryMsgSchema,
    withPaths(true),
    post("/{string_value}/{int64_value}/{enum_value}/{nested.string_value}", "repeated_nested"),
  ],
  [
    "path and body",
    QueryMsgSchema,
    withPaths(false),
    post("/{string_value}/{bytes_value}/{double_value}/{nested.string_value}", "*"),
  ],
  [
    "a path of several segments, query and body",
    QueryMsgSchema,
    withPaths(true),
    post("/{timestamp_value}/{string_value=**}:echo", "repeated_nested"),
  ],
])("any message reaches the implementation and returns unchanged in %s", async (_name, desc, messages, rule, more) => {
  await using server = await serveEcho(desc, rule, more);
  await fc.assert(
    fc.asyncProperty(messages, async (message) => {
      const returned = await server.call(message);
      expect(json(desc, server.seen.at(-1) as Message)).toEqual(json(desc, message));
      expect(json(desc, returned)).toEqual(json(desc, message));
    }),
    propertyRuns(200),
  );
});

/** A text that a path can contain. */
function pathText(text: string): string {
  return `a${text}`
    .split("/")
    .map((part) => `-${part}`)
    .join("/");
}

/** An escape of a character that a header can't contain. */
const escapeOfHeader = /%(?:[0189A-F][\dA-F]|7F)/;

test("any header field reaches the implementation and returns", async () => {
  await using server = await serveEcho(ItemSchema, post("/q", "*"));
  const texts = fc
    .string({ unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCodePoint(code)) })
    .filter((text) => !escapeOfHeader.test(text));
  await fc.assert(
    fc.asyncProperty(texts, async (text) => {
      const message = create(ItemSchema, { version: text.trim(), text: "t" });
      expect(await server.call(message)).toEqual(message);
      expect(server.seen.at(-1)).toEqual(message);
    }),
  );
});

test("an escape in a header field, which the server would have sent for another text, is decoded", async () => {
  await using server = await serveEcho(ItemSchema, post("/q", "*"));
  const returned = await server.call(create(ItemSchema, { version: "/a%20b/%C3%A9%00%" }));
  expect(returned).toEqual(create(ItemSchema, { version: "/a%20b/é\0%" }));
});
