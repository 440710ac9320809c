import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import * as t from "../gen/t/v1/vectors_pb.ts";
import { StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "../gen/gatewaytest/v1/things_pb.ts";
import { createGateway, presets, type OpenApiOptions, type GatewayOptions } from "../../src/index.ts";
import type { OperationObject } from "../../src/openapi/document.ts";
import { problemOf, createSchemaCheck } from "../openapi-check.ts";
import { readBroken } from "../read-broken.ts";
import { createRequest } from "../service.ts";
import { describeRule, describeService, get, only, withoutSum } from "./describe-operations.ts";

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
    const rules = [{ selector: `${StreamsService.typeName}.List`, options: { sse: { id: "count", event: "text" } } }];
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
