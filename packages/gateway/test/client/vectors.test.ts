import {
  create,
  createFileRegistry,
  fromJson,
  toJson,
  type DescMessage,
  type JsonValue,
  type Message,
} from "@bufbuild/protobuf";
import {
  DescriptorProtoSchema,
  FileDescriptorProtoSchema,
  FieldDescriptorProto_Label,
  FieldDescriptorProto_Type,
  type DescriptorProto,
} from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { HttpRuleSchema } from "../../gen/google/api/http_pb.ts";
import { createRestTransport } from "../../src/client/index.ts";
import { anyTypes } from "../any-message.ts";
import { StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import * as schemas from "../gen/t/v1/vectors_pb.ts";
import { serve } from "../serve.ts";
import { createMethod } from "../service.ts";
import { vectors } from "../vectors.ts";
import { callStream, callUnary, createCapturing, errorOf } from "./captured.ts";

/** Serves the rule, calls it with the message, and returns the message that the implementation received. */
async function sent(desc: DescMessage, rule: JsonValue, message: Message, form = false): Promise<Message | undefined> {
  const method = createMethod(desc, fromJson(HttpRuleSchema, rule), form ? { consumes: [formType] } : {});
  let seen: Message | undefined;
  await using server = await serve({
    registry: anyTypes,
    routes: (router) =>
      router.rpc(method, (request: Message) => {
        seen = request;
        return request;
      }),
  });
  const transport = createRestTransport({
    baseUrl: `http://127.0.0.1:${server.port}`,
    query: { maps: true },
    jsonOptions: { registry: anyTypes },
  });
  const returned = await callUnary({ transport }, method, message);
  expect(toJson(desc, returned, { registry: anyTypes })).toEqual(toJson(desc, message, { registry: anyTypes }));
  return seen;
}

const formType = "application/x-www-form-urlencoded";

const schemaOf = (name: string): DescMessage =>
  Object.values(schemas).find(
    (each) => "kind" in each && each.kind === "message" && each.typeName === name,
  ) as DescMessage;

describe("a path", () => {
  type PathVector = { template: string; expect: { match: boolean; vars?: Record<string, string> } };
  type RouteVector = {
    routes: [id: string, method: string, template: string][];
    expect: { match: boolean; route?: string; vars?: Record<string, string> };
  };
  const fromRoutes = vectors<RouteVector>("route").map(([id, { routes, expect: expected }]) => {
    const template = routes.find(([name]) => name === expected.route)?.[2] ?? "";
    return [id, { template, expect: expected }] as const;
  });
  const cases = [...vectors<PathVector>("path"), ...fromRoutes].filter(([, vector]) => vector.expect.match);

  test.each(cases)("%s", async (_id, { template, expect: { vars = {} } }) => {
    const desc = messageWith(Object.keys(vars));
    const message = create(desc);
    for (const [path, value] of Object.entries(vars)) {
      setPath(desc, message, path, value);
    }
    const withoutVariables = template.replaceAll(/\{[^}]*\}/g, "");
    const outcome = await sent(desc, { get: template }, message).catch((error: ConnectError) => error.rawMessage);
    // A wildcard that binds no field has no value.
    expect(outcome).toEqual(
      withoutVariables.includes("*") ? `the template ${template} has a wildcard outside of a variable` : message,
    );
  });
});

/** A message with a string field for each path, such as `a.b`. */
function messageWith(paths: readonly string[]): DescMessage {
  const build = (name: string, scope: string, below: readonly string[]): DescriptorProto => {
    const heads = [...new Set(below.map((path) => path.split(".")[0] ?? ""))];
    const nested = heads
      .map(
        (head) =>
          [
            head,
            below.filter((path) => path.startsWith(`${head}.`)).map((path) => path.slice(head.length + 1)),
          ] as const,
      )
      .filter(([, rest]) => rest.length > 0);
    return create(DescriptorProtoSchema, {
      name,
      nestedType: nested.map(([head, rest]) => build(`In${head}`, `${scope}.${name}`, rest)),
      field: heads.map((head, index) => ({
        name: head,
        number: index + 1,
        label: FieldDescriptorProto_Label.OPTIONAL,
        ...(nested.some(([each]) => each === head)
          ? { type: FieldDescriptorProto_Type.MESSAGE, typeName: `${scope}.${name}.In${head}` }
          : { type: FieldDescriptorProto_Type.STRING }),
      })),
    });
  };
  const file = create(FileDescriptorProtoSchema, {
    name: "variables.proto",
    package: "variables",
    syntax: "proto3",
    messageType: [build("Variables", ".variables", paths)],
  });
  return createFileRegistry(file, () => undefined).getMessage("variables.Variables") as DescMessage;
}

function setPath(desc: DescMessage, message: Message, path: string, value: string): void {
  const [head = "", ...rest] = path.split(".");
  const field = desc.fields.find(({ name }) => name === head);
  const target = message as Message & Record<string, unknown>;
  if (field?.message === undefined) {
    target[field?.localName ?? ""] = value;
    return;
  }
  const inner = (target[field.localName] ??= create(field.message)) as Message;
  setPath(field.message, inner, rest.join("."), value);
}

type QueryVector = { schema: string; expect: { ok: boolean; message?: JsonValue } };

const queries = vectors<QueryVector>("query").filter(([, vector]) => vector.expect.ok);

test.each(queries)("a query: %s", async (_id, { schema, expect: { message: expected = {} } }) => {
  const desc = schemaOf(schema);
  const message = fromJson(desc, expected, { registry: anyTypes });
  expect(await sent(desc, { get: "/q" }, message)).toEqual(message);
});

type BindingVector = {
  schema: string;
  rule: JsonValue;
  request: { contentType?: string };
  expect: { ok: boolean; message?: JsonValue };
};

const bindings = vectors<BindingVector>("binding").filter(([, vector]) => vector.expect.ok);

test.each(bindings)("a binding: %s", async (_id, { schema, rule, request, expect: { message: expected = {} } }) => {
  const desc = schemaOf(schema);
  const message = fromJson(desc, expected);
  const seen = await sent(desc, rule, message, request.contentType === formType);
  expect(toJson(desc, seen ?? create(desc))).toEqual(expected);
});

type ResponseVector = {
  schema: string;
  response_body: string;
  message: { raw?: { contentType?: string } };
  expect: { body: string | { base64: string }; contentType: string };
};

test.each(vectors<ResponseVector>("response"))("a response: %s", async (_id, vector) => {
  const desc = schemaOf(vector.schema);
  const method = createMethod(desc, { pattern: { case: "get", value: "/q" }, responseBody: vector.response_body });
  const { body, contentType } = vector.expect;
  const bytes = typeof body === "string" ? body : Buffer.from(body.base64, "base64");
  const capturing = createCapturing(() => new Response(bytes, { headers: { "content-type": contentType } }));
  const { raw } = vector.message;
  expect(toJson(desc, await callUnary(capturing, method, {}))).toEqual({
    ...vector.message,
    ...(raw && { raw: { contentType, ...raw } }),
  });
});

test.each(vectors<ResponseVector>("response"))("a response of our server: %s", async (_id, vector) => {
  const desc = schemaOf(vector.schema);
  const pattern = { case: "get", value: "/q" } as const;
  const method = createMethod(desc, { pattern, responseBody: vector.response_body });
  const message = fromJson(desc, vector.message as JsonValue);
  await using server = await serve({ routes: (router) => router.rpc(method, () => message) });
  const transport = createRestTransport({ baseUrl: `http://127.0.0.1:${server.port}` });
  const { contentType } = vector.expect;
  const { raw } = vector.message;
  expect(toJson(desc, await callUnary({ transport }, method, {}))).toEqual({
    ...vector.message,
    ...(raw && { raw: { contentType, ...raw } }),
  });
});

type StreamVector = {
  dialect: string;
  messages: { text: string }[];
  error?: { code: number; message: string };
  expect: { body: string; contentType: string };
};

test.each(vectors<StreamVector>("stream"))("a stream: %s", async (_id, vector) => {
  const { body, contentType } = vector.expect;
  const capturing = createCapturing(() => new Response(body, { headers: { "content-type": contentType } }));
  const received = callStream(capturing, StreamsService.method.search, [{ shelf: "s" }]);
  const outcome = await received.then(
    (messages) => messages.map((message) => toJson(StreamsService.method.search.output, message as never)),
    (error: ConnectError) => [error.code, error.rawMessage],
  );
  // The error of ASP.NET Core is a message by its form. The connection is also aborted after it.
  const inBand =
    vector.dialect === "aspnet-ndjson" ? [...vector.messages, {}] : [vector.error?.code, vector.error?.message];
  expect(outcome).toEqual(vector.error === undefined ? vector.messages : inBand);
});

test.each(vectors<{ code: string; number: number; expect: { status: number } }>("status"))(
  "a status: %s",
  async (_id, { code, number, expect: { status } }) => {
    const method = createMethod(schemas.MessageSchema, { pattern: { case: "get", value: "/q" } });
    for (const body of [{ code }, { code: number }, { error: { code: status, status: code.toUpperCase() } }]) {
      const capturing = createCapturing(() => Response.json(body, { status }));
      expect((await errorOf(callUnary(capturing, method, {}))).code).toBe(number);
    }
  },
);

test.each(vectors<{ code: string; number: Code; expect: { status: number } }>("status"))(
  "a status of our server: %s",
  async (_id, { number, expect: { status } }) => {
    const method = createMethod(schemas.MessageSchema, { pattern: { case: "get", value: "/q" } });
    for (const errors of ["plain", "problem", "status", "google"] as const) {
      await using server = await serve({
        errors,
        routes: (router) =>
          router.rpc(method, () => {
            throw new ConnectError("failed", number);
          }),
      });
      const transport = createRestTransport({ baseUrl: `http://127.0.0.1:${server.port}` });
      expect(await errorOf(callUnary({ transport }, method, {}))).toMatchObject({ code: number, rawMessage: "failed" });
      expect((await server.send("GET", "/q")).status).toBe(status);
    }
  },
);

type EncodeVector = { template: string; vars: Record<string, string>; expect: { ok: boolean; path?: string } };

test.each(vectors<EncodeVector>("encode"))("a template: %s", async (_id, { template, vars, expect: expected }) => {
  const method = createMethod(schemas.QueryMsgSchema, { pattern: { case: "get", value: template } });
  const capturing = createCapturing();
  const outcome = await callUnary(capturing, method, { stringValue: vars["string_value"] ?? "" }).then(
    () => capturing.requests[0]?.line,
    (error: ConnectError) => error.code,
  );
  expect(outcome).toBe(expected.ok ? `GET ${expected.path}` : Code.InvalidArgument);
});
