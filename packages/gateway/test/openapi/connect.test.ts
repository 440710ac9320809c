import { beforeAll, describe, expect, test } from "vitest";
import type { DescMethodServerStreaming, DescMethodUnary, DescService } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { createFetchHandler } from "../../src/adapters/fetch/index.ts";
import { openapi, type GatewayOptions, type OpenApiDocument, type OpenApiOptions } from "../../src/index.ts";
import type { OperationObject } from "../../src/openapi/document.ts";
import { createSchemaCheck, problemOf, schemaPaths } from "../openapi-check.ts";
import { compileProto, serviceOf } from "./compile-proto.ts";

const source = `
syntax = "proto3";
package shop.v1;
import "google/api/annotations.proto";

service ShopService {
  rpc Find(FindRequest) returns (Item) {
    option idempotency_level = NO_SIDE_EFFECTS;
  }
  rpc Buy(Item) returns (Item);
  rpc Show(Item) returns (Item) {
    option (google.api.http) = {post: "/items" body: "*"};
  }
  rpc Watch(FindRequest) returns (stream Item);
  rpc Upload(stream Item) returns (Item);
  rpc Chat(stream Item) returns (stream Item);
}
message FindRequest {
  string name = 1;
}
message Item {
  string name = 1;
  int64 price = 2;
}`;

let service: DescService;
beforeAll(async () => {
  service = serviceOf(await compileProto(source), "shop.v1.ShopService");
});

const describeShop = (options: Partial<OpenApiOptions> = {}, handler: Partial<GatewayOptions> = {}): OpenApiDocument =>
  openapi(
    { routes: (router) => router.service(service, {}), ...handler },
    { info: { title: "Shop", version: "1" }, ...options },
  );

const at = (document: OpenApiDocument, path: string, method: string): OperationObject =>
  document.paths[path]?.[method] as OperationObject;

const placesOf = ({ paths }: OpenApiDocument): string[] =>
  Object.entries(paths).flatMap(([path, item]) => Object.keys(item).map((method) => `${method} ${path}`));

const jsonSchema = ["content", "application/json", "schema"];

const item = { $ref: "#/components/schemas/Item" };

test.each(["unannotated", "all", "none"] as const)(
  "connect: %s has the operations that it says, and is valid",
  async (connect) => {
    const document = describeShop({ connect });
    const rpc = (name: string, method = "post"): string => `${method} /shop.v1.ShopService/${name}`;
    const unannotated = [rpc("Find"), rpc("Find", "get"), rpc("Buy"), rpc("Watch"), rpc("Upload"), rpc("Chat")];
    expect(placesOf(document).toSorted()).toEqual(
      [
        "post /items",
        ...(connect === "none" ? [] : unannotated),
        ...(connect === "all" ? [rpc("Show")] : []),
      ].toSorted(),
    );
    expect(await problemOf(document)).toBeUndefined();
    const check = createSchemaCheck(document);
    for (const path of schemaPaths(document)) {
      check(path, undefined);
    }
  },
);

test("the default is unannotated", () => {
  expect(describeShop()).toEqual(describeShop({ connect: "unannotated" }));
});

describe("a unary RPC", () => {
  test("is a POST of JSON", () => {
    expect(at(describeShop(), "/shop.v1.ShopService/Buy", "post")).toEqual({
      operationId: "ShopService_Buy",
      tags: ["ShopService"],
      summary: "Buy",
      requestBody: { required: true, content: { "application/json": { schema: item } } },
      responses: {
        200: { description: "Success.", content: { "application/json": { schema: item } } },
        default: {
          description: "An error.",
          content: { "application/json": { schema: { $ref: "#/components/schemas/ConnectError" } } },
        },
      },
    });
  });

  test("without side effects is a GET, too", () => {
    const { operationId, parameters, requestBody } = at(describeShop(), "/shop.v1.ShopService/Find", "get");
    expect({ operationId, requestBody }).toEqual({ operationId: "ShopService_Find_2", requestBody: undefined });
    expect(parameters).toEqual([
      { name: "encoding", in: "query", required: true, schema: { type: "string", enum: ["json"] } },
      {
        name: "message",
        in: "query",
        required: true,
        description: "The request message.",
        content: { "application/json": { schema: { $ref: "#/components/schemas/FindRequest" } } },
      },
    ]);
  });

  test("is served as it is described", async () => {
    const handler = createFetchHandler({
      routes: (router) => {
        router.rpc(service.method["find"] as DescMethodUnary, (request) => request);
        router.rpc(service.method["buy"] as DescMethodUnary, () => {
          throw new ConnectError("sold out", Code.FailedPrecondition);
        });
      },
    });
    const check = createSchemaCheck(describeShop());
    const schemaAt = (name: string, method: string, status: string) =>
      ["paths", `/shop.v1.ShopService/${name}`, method, "responses", status].concat(jsonSchema);
    const url = "http://a.example/shop.v1.ShopService";
    const message = encodeURIComponent(JSON.stringify({ name: "tea" }));
    const found = await handler(new Request(`${url}/Find?encoding=json&message=${message}`));
    expect(check(schemaAt("Find", "get", "200"), await found.json())).toBeUndefined();
    const headers = { "content-type": "application/json" };
    const failed = await handler(new Request(`${url}/Buy`, { method: "POST", headers, body: '{"price":"5"}' }));
    const error: unknown = await failed.json();
    expect(error).toMatchObject({ code: "failed_precondition", message: "sold out" });
    expect(check(schemaAt("Buy", "post", "default"), error)).toBeUndefined();
    expect(check(schemaAt("Buy", "post", "default"), { code: "sold_out" })).toContain("allowed values");
  });
});

describe("a stream", () => {
  test.each([
    ["Watch", "FindRequest", "One message."],
    ["Upload", "Item", "Messages."],
    ["Chat", "Item", "Messages."],
  ])("%s is a POST of envelopes", (name, request, text) => {
    const { requestBody, responses } = at(describeShop(), `/shop.v1.ShopService/${name}`, "post");
    expect(Object.keys(requestBody?.content ?? {})).toEqual(["application/connect+json"]);
    expect(requestBody?.content["application/connect+json"]).toEqual({
      schema: { type: "string", format: "binary", description: expect.stringContaining(text) },
      "x-itemSchema": { $ref: `#/components/schemas/${request}` },
    });
    expect(Object.keys(responses)).toEqual(["200"]);
    expect(responses["200"]?.content?.["application/connect+json"]).toMatchObject({
      "x-itemSchema": { anyOf: [item, { $ref: "#/components/schemas/ConnectEndStream" }] },
    });
  });

  test("is served as it is described", async () => {
    const handler = createFetchHandler({
      routes: (router) =>
        router.rpc(service.method["watch"] as DescMethodServerStreaming, async function* () {
          yield { name: "tea" };
          throw new ConnectError("closed", Code.Unavailable);
        }),
    });
    const json = new TextEncoder().encode('{"name":"t"}');
    const response = await handler(
      new Request("http://a.example/shop.v1.ShopService/Watch", {
        method: "POST",
        headers: { "content-type": "application/connect+json" },
        body: new Uint8Array([0, 0, 0, 0, json.length, ...json]),
      }),
    );
    expect(response.status).toBe(200);
    const envelopes = readEnvelopes(new Uint8Array(await response.arrayBuffer()));
    expect(envelopes.map(({ flags }) => flags)).toEqual([0, 2]);
    const check = createSchemaCheck(describeShop());
    const place = ["paths", "/shop.v1.ShopService/Watch", "post", "responses", "200", "content"];
    for (const [index, { message }] of envelopes.entries()) {
      const path = [...place, "application/connect+json", "x-itemSchema", "anyOf", String(index)];
      expect(check(path, message)).toBeUndefined();
    }
    expect(check(["components", "schemas", "ConnectEndStream"], { error: {} })).toContain("required property 'code'");
  });
});

function readEnvelopes(bytes: Uint8Array): { flags: number; message: unknown }[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const envelopes: { flags: number; message: unknown }[] = [];
  for (let at = 0; at < bytes.length;) {
    const end = at + 5 + view.getUint32(at + 1);
    const text = new TextDecoder().decode(bytes.subarray(at + 5, end));
    envelopes.push({ flags: bytes[at] ?? 0, message: JSON.parse(text) });
    at = end;
  }
  return envelopes;
}

test("a message has the plain proto3 JSON mapping there, in a schema of its own if it differs", async () => {
  const { ThingsService } = await import("../gen/gatewaytest/v1/things_pb.ts");
  const document = openapi(
    { routes: (router) => router.service(ThingsService, {}) },
    { info: { title: "Things", version: "1" }, connect: "all" },
  );
  expect(await problemOf(document)).toBeUndefined();
  const { Speed, SpeedRpc } = document.components.schemas;
  expect(Speed).toMatchObject({ enum: ["fast", "slow"] });
  expect(SpeedRpc).toMatchObject({ enum: ["SPEED_UNSPECIFIED", "SPEED_FAST", "SPEED_SLOW"] });
  const { GetHeadersResponse, GetHeadersResponseRpc } = document.components.schemas;
  expect(GetHeadersResponse?.["properties"]).not.toHaveProperty("count");
  expect(GetHeadersResponseRpc?.["properties"]).toHaveProperty("count");
});
