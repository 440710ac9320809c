import { create, createRegistry, fromBinary, toBinary, type Message } from "@bufbuild/protobuf";
import {
  anyPack,
  AnySchema,
  anyUnpack,
  DurationSchema,
  file_google_protobuf_duration,
  file_google_protobuf_type,
} from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { QueryMsgSchema } from "../gen/t/v1/vectors_pb.ts";
import { AnysService, ParcelSchema, type Parcel } from "../gen/gatewaytest/v1/anys_pb.ts";
import {
  GetHeadersResponseSchema,
  OpenThingResponseSchema,
  Speed,
  ThingSchema,
} from "../gen/gatewaytest/v1/things_pb.ts";
import { createGateway, createReachableRegistry, type Gateway, type GatewayOptions } from "../../src/index.ts";
import { anyMessage, anyTypes } from "../any-message.ts";
import { collect } from "../serve-streams.ts";
import { call, createEcho, createRequest } from "../service.ts";
import { propertyRuns } from "../property-runs.ts";

const url = (name: string): string => `type.googleapis.com/${name}`;
const thing = url("gatewaytest.v1.Thing");

/** The default, and google.protobuf.Option: a message with an Any, without a JSON form of its own. */
const registry = createRegistry(createReachableRegistry(AnysService.methods), file_google_protobuf_type);

type Echo = { readonly gateway: Gateway; readonly seen: Parcel[] };

function createParcels(options: Omit<GatewayOptions, "routes"> = {}): Echo {
  const seen: Parcel[] = [];
  const gateway = createGateway({
    registry,
    ...options,
    routes: (router) =>
      router.service(AnysService, {
        echoParcel(request) {
          seen.push(request);
          return request;
        },
        async *echoParcels(requests) {
          yield* requests;
        },
        async *watchParcel(request) {
          yield request;
          yield request;
        },
      }),
  });
  return { gateway, seen };
}

/** A service that returns an Any that was not read from JSON. */
function createService(item: Message, options: Omit<GatewayOptions, "routes"> = {}): { gateway: Gateway } {
  return {
    gateway: createGateway({
      ...options,
      routes: (router) =>
        router.service(AnysService, { echoParcel: () => create(ParcelSchema, { item: item as never }) }),
    }),
  };
}

const send = (echo: Echo, target: string, body: unknown) =>
  call(echo, createRequest("POST", target, typeof body === "string" ? body : JSON.stringify(body)));

describe("a message in an Any", () => {
  test.each<[what: string, item: object]>([
    ["has its fields beside the type", { "@type": thing, text: "t", large: "-9223372036854775808", inner: {} }],
    ["may have none", { "@type": thing }],
    ["that has a JSON form of its own is the value", { "@type": url("google.protobuf.Duration"), value: "1.500s" }],
    ["a time", { "@type": url("google.protobuf.Timestamp"), value: "2024-02-29T12:00:00Z" }],
    ["a mask", { "@type": url("google.protobuf.FieldMask"), value: "aB,c" }],
    ["a struct", { "@type": url("google.protobuf.Struct"), value: { a: [1, null, { b: "" }], "@type": "x" } }],
    ["a list", { "@type": url("google.protobuf.ListValue"), value: [[], {}] }],
    ["null", { "@type": url("google.protobuf.Value"), value: null }],
    ["a wrapper", { "@type": url("google.protobuf.Int64Value"), value: "9007199254740993" }],
    ["an empty wrapper", { "@type": url("google.protobuf.StringValue"), value: "" }],
    ["Empty has no form of its own", { "@type": url("google.protobuf.Empty") }],
    ["an Any", { "@type": url("google.protobuf.Any"), value: { "@type": thing, text: "t" } }],
    ["an empty Any", { "@type": url("google.protobuf.Any"), value: {} }],
    [
      "Anys in it",
      {
        "@type": url("gatewaytest.v1.Parcel"),
        items: [{ "@type": url("gatewaytest.v1.Parcel"), byName: { a: { "@type": thing, flag: true } } }],
      },
    ],
    [
      "a google.protobuf message with an Any",
      {
        "@type": url("google.protobuf.Option"),
        name: "o",
        value: { "@type": url("google.protobuf.BoolValue"), value: true },
      },
    ],
    [
      "a google.protobuf message with an open object in an Any",
      {
        "@type": url("google.protobuf.Option"),
        value: { "@type": url("gatewaytest.v1.OpenThingResponse"), id: "1", tags: [], other: { x: null } },
      },
    ],
    ["by another host", { "@type": "types.example.com/a/gatewaytest.v1.Thing", text: "t" }],
    ["enums as HTTP spells them", { "@type": thing, speed: "fast", speeds: ["slow"] }],
    [
      "an open object",
      { "@type": url("gatewaytest.v1.OpenThingRequest"), id: "1", note: "n", tags: ["x"], other: { x: null } },
    ],
    ["nothing", {}],
  ])("%s", async (_what, item) => {
    const echo = createParcels();
    expect(await send(echo, "/anys", { item })).toEqual({ status: 200, body: { item } });
  });

  test("can be in lists, maps, oneofs, and a singular field", async () => {
    const echo = createParcels();
    const any = { "@type": thing, small: 1 };
    const duration = { "@type": url("google.protobuf.Duration"), value: "1s" };
    const body = { items: [any, {}, duration], byName: { "a b": any, "": {} }, chosen: any };
    expect(await send(echo, "/anys", body)).toEqual({ status: 200, body });
    expect(await send(echo, "/anys/item", any)).toEqual({ status: 200, body: any });
    expect(await send(echo, "/anys/item", null)).toEqual({ status: 200, body: null });
    expect(await send(echo, "/anys/items", [any, duration])).toEqual({ status: 200, body: [any, duration] });
  });

  test("is passed to the implementation in binary, with the type URL that was sent", async () => {
    const echo = createParcels();
    await send(echo, "/anys/item", { text: "t", "@type": "x.example/gatewaytest.v1.Thing" });
    const [parcel] = echo.seen;
    expect(parcel?.item?.typeUrl).toBe("x.example/gatewaytest.v1.Thing");
    expect(parcel?.item && anyUnpack(parcel.item, ThingSchema)).toEqual(create(ThingSchema, { text: "t" }));
  });

  test("keeps integers beyond 2^53, as literals too", async () => {
    const echo = createParcels();
    const body = `{"item":{"@type":"${thing}","large":9223372036854775807,"struct":{"a":9007199254740993}},"items":[{"@type":"${url("google.protobuf.UInt64Value")}","value":18446744073709551615}]}`;
    expect(await send(echo, "/anys", body)).toMatchObject({
      body: { item: { large: "9223372036854775807" }, items: [{ value: "18446744073709551615" }] },
    });
    const option = `{"item":{"@type":"${url("google.protobuf.Option")}","value":{"@type":"${thing}","large":9223372036854775807}}}`;
    expect(await send(echo, "/anys", option)).toMatchObject({
      body: { item: { value: { large: "9223372036854775807" } } },
    });
  });

  test("is written with its type first", async () => {
    const response = await createService(anyPack(ThingSchema, create(ThingSchema, { text: "t" }))).gateway.handle(
      createRequest("GET", "/anys"),
    );
    expect(response.body).toBe(`{"item":{"@type":"${thing}","text":"t"}}`);
  });

  test("can be in streams, too", async () => {
    const { gateway } = createParcels();
    const line = `{"item":{"@type":"${thing}","text":"t"}}\n`;
    const stream = createRequest("POST", "/anys/stream", line + line, "application/x-ndjson");
    const responses = [
      await gateway.handle({ ...stream, httpVersionMajor: 2 }),
      await gateway.handle(createRequest("POST", "/anys/watch", line)),
    ];
    for (const { body } of responses) {
      expect((await collect(body as AsyncIterable<string>)).join("")).toBe(line + line);
    }
  });

  test("can be a value of a map that a query contains as JSON", async () => {
    const echo = createParcels();
    const parcels = { a: { item: { "@type": thing, text: "t" } } };
    const target = `/anys?parcels=${encodeURIComponent(JSON.stringify(parcels))}`;
    expect(await call(echo, createRequest("GET", target))).toEqual({ status: 200, body: { parcels } });
    expect(await call(echo, createRequest("GET", "/anys?item=x"))).toMatchObject({
      body: { message: "item: can't be set by a query" },
    });
  });
});

test("any message is returned unchanged", async () => {
  const options = { registry: anyTypes };
  const echo = createEcho(QueryMsgSchema, { pattern: { case: "post", value: "/q" }, body: "any_value" }, options);
  const response = createEcho(AnySchema, { pattern: { case: "post", value: "/q" }, body: "*" });
  const bare = createEcho(AnySchema, { pattern: { case: "post", value: "/q" }, body: "*" }, options);
  await fc.assert(
    fc.asyncProperty(anyMessage(QueryMsgSchema), async (message) => {
      const any = anyPack(QueryMsgSchema, message as never);
      const written = await call(createService(any, options), createRequest("GET", "/anys"));
      expect(written.status).toBe(200);
      const json = (written.body as { item: object }).item;
      // JSON.stringify omits the sign of -0.
      const text = JSON.stringify(json, (_key, item: unknown) => (Object.is(item, -0) ? "-0" : item));
      expect(await call(echo, createRequest("POST", "/q", text))).toEqual({ status: 200, body: { anyValue: json } });
      expect(await call(bare, createRequest("POST", "/q", text))).toEqual({ status: 200, body: json });
      expect(anyUnpack(bare.seen.splice(0)[0] as never, QueryMsgSchema)).toEqual(
        fromBinary(QueryMsgSchema, toBinary(QueryMsgSchema, message as never)),
      );
    }),
    propertyRuns(200),
  );
  expect(await call(response, createRequest("POST", "/q", '{"@type":"x/t.v1.QueryMsg"}'))).toMatchObject({
    body: { message: "['@type']: must name a known type, not x/t.v1.QueryMsg" },
  });
});

describe("a request with an Any", () => {
  const aType = "must be the URL of a type, such as type.googleapis.com/google.protobuf.Duration";
  test.each<[item: unknown, message: string]>([
    ["x", "item: must be an object"],
    [[], "item: must be an object"],
    [{ text: "t" }, "item['@type']: is missing"],
    [{ "@type": null }, `item['@type']: ${aType}`],
    [{ "@type": 1 }, `item['@type']: ${aType}`],
    [{ "@type": "" }, `item['@type']: ${aType}`],
    [{ "@type": "gatewaytest.v1.Thing" }, `item['@type']: ${aType}`],
    [{ "@type": "type.googleapis.com/" }, `item['@type']: ${aType}`],
    [{ "@type": url("none.None") }, "item['@type']: must name a known type, not type.googleapis.com/none.None"],
    [{ "@type": thing, small: "x" }, "item.small: must be a 32-bit integer"],
    [{ "@type": thing, things: [{}, { flag: 1 }] }, "item.things[1].flag: must be true or false"],
    [{ "@type": url("google.protobuf.Empty"), x: 1 }, "item.x: unknown; there are no fields"],
    [
      {
        "@type": url("google.protobuf.Option"),
        name: "o",
        value: { "@type": url("google.protobuf.Int64Value"), value: "x" },
      },
      "item.value.value: must be a 64-bit integer",
    ],
    [
      { "@type": url("google.protobuf.Option"), value: { "@type": thing, speed: "SPEED_FAST" } },
      "item.value.speed: must be one of fast, slow",
    ],
    [{ "@type": url("google.protobuf.Duration") }, "item.value: is missing"],
    [{ "@type": url("google.protobuf.Duration"), value: 1 }, "item.value: must be a duration in seconds, such as 1.5s"],
    [{ "@type": url("google.protobuf.Duration"), value: "1s", x: 1 }, "item.x: unknown; the fields are @type, value"],
    [{ "@type": url("google.protobuf.BoolValue"), value: null }, "item.value: must be true or false"],
    [{ "@type": url("google.protobuf.Any"), value: { "@type": thing, text: 1 } }, "item.value.text: must be a string"],
    [{ "@type": url("gatewaytest.v1.OpenThingRequest") }, "item.id: is missing"],
    [
      { "@type": url("gatewaytest.v1.Parcel"), byName: { "a b": { "@type": "x/y.Z" } } },
      "item.byName['a b']['@type']: must name a known type, not x/y.Z",
    ],
  ])("%j is a request error", async (item, message) => {
    const echo = createParcels();
    expect(await send(echo, "/anys", { item })).toEqual({ status: 400, body: { code: "invalid_argument", message } });
    expect(echo.seen).toEqual([]);
  });

  test("with an unknown field is rejected with the known ones", async () => {
    const { status, body } = await send(createParcels(), "/anys/item", { "@type": thing, txet: "" });
    expect([status, body]).toMatchObject([
      400,
      { message: expect.stringMatching(/^item\.txet: unknown; the fields are text, flag,/) },
    ]);
  });

  test("with a repeated key is rejected, also a repeated @type", async () => {
    const body = `{"item":{"@type":"${thing}","@type":"${thing}"}}`;
    expect(await send(createParcels(), "/anys", body)).toMatchObject({
      status: 400,
      body: { message: "item['@type']: duplicate key" },
    });
  });

  test("has the depth limit of all bodies", async () => {
    const nest = (levels: number): string =>
      `{"@type":"${url("google.protobuf.Any")}","value":`.repeat(levels - 1) + "{}" + "}".repeat(levels - 1);
    expect(await send(createParcels(), "/anys/item", nest(100))).toEqual({
      status: 200,
      body: JSON.parse(nest(100)) as object,
    });
    expect((await send(createParcels(), "/anys/item", nest(101))).status).toBe(400);
  });

  test("can be nested up to the maximum of the limit", async () => {
    const echo = createParcels({ maxDepth: 500 });
    const struct = (levels: number): string => '{"a":'.repeat(levels) + "{}" + "}".repeat(levels);
    const body = `{"@type":"${url("google.protobuf.Struct")}","value":${struct(498)}}`;
    expect(await send(echo, "/anys/item", body)).toEqual({ status: 200, body: JSON.parse(body) as object });
    expect(() => createParcels({ maxDepth: 501 })).toThrow("maxDepth must be a number from 1 to 500, not 501");
  });

  test("has a long type truncated in the error", async () => {
    const { body } = await send(createParcels(), "/anys/item", { "@type": `x/${"y".repeat(10_000)}` });
    expect((body as { message: string }).message.length).toBeLessThan(300);
  });
});

describe("an Any of a response", () => {
  const unknown = create(AnySchema, { typeUrl: url("none.None"), value: Uint8Array.of(8, 1) });

  test.each<[what: string, item: Message]>([
    ["of a type that nobody knows", unknown],
    ["without the slash of a URL", create(AnySchema, { typeUrl: "gatewaytest.v1.Thing" })],
    ["whose bytes are not of its type", create(AnySchema, { typeUrl: thing, value: Uint8Array.of(255) })],
    ["with such an Any in it", anyPack(AnySchema, unknown as never)],
  ])("%s fails the call", async (_what, item) => {
    const causes: unknown[] = [];
    const errors: GatewayOptions["errors"] = ({ status, cause }) => {
      causes.push(cause);
      return { status, body: {} };
    };
    expect(await call(createService(item), createRequest("GET", "/anys"))).toEqual({
      status: 500,
      body: { code: "internal", message: "internal error" },
    });
    expect((await call(createService(item, { errors }), createRequest("GET", "/anys"))).status).toBe(500);
    expect(causes).toEqual([expect.any(Error)]);
  });

  test("of an unknown type has the type in the error's cause", async () => {
    let cause: unknown;
    const errors: GatewayOptions["errors"] = (error) => {
      ({ cause } = error);
      return {};
    };
    await call(createService(unknown, { errors }), createRequest("GET", "/anys"));
    expect(cause).toEqual(
      new Error("the registry has no type for the google.protobuf.Any of type.googleapis.com/none.None"),
    );
  });

  test("has its type also if an open object has a key of that name", async () => {
    const open = create(OpenThingResponseSchema, { id: "1", others: { "@type": "x", y: 1 } });
    expect(await call(createService(anyPack(OpenThingResponseSchema, open)), createRequest("GET", "/anys"))).toEqual({
      status: 200,
      body: { item: { "@type": url("gatewaytest.v1.OpenThingResponse"), id: "1", tags: [], y: 1 } },
    });
  });

  test("omits fields with the header option", async () => {
    const headers = create(GetHeadersResponseSchema, { speed: Speed.FAST, count: 3 });
    expect(
      await call(createService(anyPack(GetHeadersResponseSchema, headers)), createRequest("GET", "/anys")),
    ).toEqual({ status: 200, body: { item: { "@type": url("gatewaytest.v1.GetHeadersResponse"), speed: "fast" } } });
  });
});

describe("the registry", () => {
  const options = { registry: createRegistry(file_google_protobuf_duration) };
  const duration = { "@type": url("google.protobuf.Duration"), value: "1s" };

  test("has the types of an Any, in requests and responses", async () => {
    const echo = createParcels(options);
    expect(await send(echo, "/anys/item", duration)).toEqual({ status: 200, body: duration });
    expect(await send(echo, "/anys/item", { "@type": thing })).toMatchObject({
      status: 400,
      body: { message: `item['@type']: must name a known type, not ${thing}` },
    });
    const mine = anyPack(ThingSchema, create(ThingSchema));
    expect((await call(createService(mine, options), createRequest("GET", "/anys"))).status).toBe(500);
    expect((await call(createService(mine), createRequest("GET", "/anys"))).status).toBe(200);
  });

  test("can have types that no service uses", async () => {
    const item = { "@type": url("t.v1.QueryMsg"), stringValue: "s" };
    expect((await send(createParcels(), "/anys/item", item)).status).toBe(400);
    const registry = createRegistry(QueryMsgSchema);
    expect(await send(createParcels({ registry }), "/anys/item", item)).toEqual({ status: 200, body: item });
  });

  test("applies to error details", async () => {
    const details: unknown[] = [];
    const gateway = createGateway({
      errors(error) {
        details.push(...error.details());
        return {};
      },
      routes: (router) =>
        router.rpc(AnysService.method.echoParcel, () => {
          const detail = { desc: ThingSchema, value: { ratio: -0, large: 1n } };
          throw new ConnectError("m", Code.Aborted, undefined, [detail]);
        }),
    });
    await call({ gateway }, createRequest("GET", "/anys"));
    expect(details).toEqual([{ "@type": thing, large: "1", ratio: -0 }]);
  });

  test("has the types of error details, too", async () => {
    const failing = (more: Omit<GatewayOptions, "routes">): { gateway: Gateway } => ({
      gateway: createGateway({
        ...more,
        errors: "status",
        routes: (router) =>
          router.service(AnysService, {
            echoParcel() {
              const parcel = create(ParcelSchema, { item: anyPack(QueryMsgSchema, create(QueryMsgSchema)) });
              const error = new ConnectError("m", Code.Aborted);
              error.details = [
                { type: ParcelSchema.typeName, value: toBinary(ParcelSchema, parcel) },
                { type: DurationSchema.typeName, value: toBinary(DurationSchema, create(DurationSchema)) },
              ];
              throw error;
            },
          }),
      }),
    });
    const zero = { "@type": url("google.protobuf.Duration"), value: "0s" };
    const parcel = { "@type": url("gatewaytest.v1.Parcel"), item: { "@type": url("t.v1.QueryMsg") } };
    const get = createRequest("GET", "/anys");
    expect(await call(failing({}), get)).toMatchObject({ body: { details: [zero] } });
    const registry = createRegistry(ParcelSchema, QueryMsgSchema, DurationSchema);
    expect(await call(failing({ registry }), get)).toMatchObject({ body: { details: [parcel, zero] } });
    expect(await call(failing({ registry: createRegistry() }), get)).toMatchObject({ body: { details: [] } });
  });
});
