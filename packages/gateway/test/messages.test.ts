import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { NullValue } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  Colour,
  EchoThingResponseSchema,
  type OpenThingResponseSchema,
  Speed,
  ThingSchema,
  ThingsService,
  type Thing,
} from "./gen/gatewaytest/v1/things_pb.ts";
import { form, json, serve, type Send } from "./serve.ts";

let seen: Thing | undefined;
let server: AsyncDisposable & { send: Send };
beforeAll(async () => {
  server = await serve({
    routes: (router) => {
      router.service(ThingsService, {
        echoThing(request) {
          seen = request.thing;
          return create(EchoThingResponseSchema, request.thing === undefined ? {} : { thing: request.thing });
        },
        openThing: ({ id, note, tags, others, map }) => ({
          id,
          tags,
          ...(note === undefined ? {} : { note }),
          ...(others === undefined ? {} : { others }),
          ...(map === undefined ? {} : { map }),
        }),
        sendForm: ({ userName, age, admin, speed }) => ({ userName, age, admin, speed }),
        getHeaders: ({ speed, count }) => ({ speed, count }),
      });
    },
  });
});
afterAll(() => server[Symbol.asyncDispose]());

const echo = async (body: string): Promise<{ status: number; body: unknown }> => {
  const reply = await server.send("POST", "/things/echo", { headers: json, body });
  return { status: reply.status, body: reply.body === "" ? undefined : JSON.parse(reply.body) };
};

describe("a field of each kind, as the body", () => {
  test.each<[body: string, expected: MessageInitShape<typeof ThingSchema>, response?: string]>([
    ["{}", {}],
    [
      '{"text":"ü😀","flag":true,"small":-2147483648,"unsigned":4294967295}',
      { text: "ü😀", flag: true, small: -2147483648, unsigned: 4294967295 },
    ],
    [
      '{"large":"-9223372036854775808","unsignedLarge":"18446744073709551615"}',
      { large: -(2n ** 63n), unsignedLarge: 2n ** 64n - 1n },
    ],
    ['{"large":7,"unsigned_large":8}', { large: 7n, unsignedLarge: 8n }, '{"large":"7","unsignedLarge":"8"}'],
    ['{"ratio":1.5,"single":"NaN"}', { ratio: 1.5, single: Number.NaN }],
    ['{"ratio":"Infinity"}', { ratio: Number.POSITIVE_INFINITY }],
    ['{"small":"1e5","unsigned":"20.0"}', { small: 100_000, unsigned: 20 }, '{"small":100000,"unsigned":20}'],
    ['{"data":"3q2-7w"}', { data: Uint8Array.of(0xde, 0xad, 0xbe, 0xef) }, '{"data":"3q2+7w=="}'],
    [
      '{"colour":"COLOUR_RED","speed":"fast","speeds":["slow","fast"]}',
      { colour: Colour.RED, speed: Speed.FAST, speeds: [Speed.SLOW, Speed.FAST] },
    ],
    ['{"colour":1}', { colour: Colour.RED }, '{"colour":"COLOUR_RED"}'],
    ['{"colour":77}', { colour: 77 as Colour }],
    ['{"maybe":""}', { maybe: "" }],
    ['{"maybe":null,"texts":null,"inner":null}', {}, "{}"],
    ['{"texts":["a",""],"things":[{"text":"x"},{}]}', { texts: ["a", ""], things: [{ text: "x" }, {}] }],
    [
      '{"counts":{"a":1,"constructor":2},"byName":{"b":{"text":"c"}}}',
      { counts: { a: 1, constructor: 2 }, byName: { b: { text: "c" } } },
    ],
    ['{"inner":{"inner":{"inner":{}}}}', { inner: { inner: { inner: {} } } }],
    ['{"left":""}', { choice: { case: "left", value: "" } }],
    ['{"right":0}', { choice: { case: "right", value: 0 } }],
    [
      '{"struct":{"a":[1,null,{"b":""}]},"anyValue":null}',
      { struct: { a: [1, null, { b: "" }] }, anyValue: { kind: { case: "nullValue", value: NullValue.NULL_VALUE } } },
    ],
    ['{"at":"2024-02-29T12:00:00.000000001Z","wrapped":""}', { at: { seconds: 1709208000n, nanos: 1 }, wrapped: "" }],
  ])("%s", async (body, expected, response = body) => {
    expect(await echo(body)).toEqual({ status: 200, body: JSON.parse(response) });
    expect(seen).toEqual(create(ThingSchema, expected));
  });

  test.each<[body: string, message: string]>([
    ["[]", "thing: must be an object"],
    ['{"text":1}', "thing.text: must be a string"],
    ['{"flag":"true"}', "thing.flag: must be true or false"],
    ['{"small":2147483648}', "thing.small: must be a 32-bit integer"],
    ['{"small":1.5}', "thing.small: must be a 32-bit integer"],
    ['{"small":"010"}', "thing.small: must be a 32-bit integer"],
    ['{"small":"0x10"}', "thing.small: must be a 32-bit integer"],
    ['{"unsigned":-1}', "thing.unsigned: must be a 32-bit integer, 0 or more"],
    ['{"large":9223372036854775808}', "thing.large: must be a 64-bit integer"],
    ['{"large":9007199254740993.5}', "thing.large: must be a 64-bit integer"],
    ['{"small":{"toString":1}}', "thing.small: must be a 32-bit integer"],
    ['{"small":[{"toString":1}]}', "thing.small: must be a 32-bit integer"],
    ['{"unsigned":{"valueOf":null,"toString":null}}', "thing.unsigned: must be a 32-bit integer, 0 or more"],
    ['{"ratio":{"toString":1}}', "thing.ratio: must be a number"],
    ['{"counts":{"a":{"toString":1}}}', "thing.counts.a: must be a 32-bit integer"],
    ['{"small":"1.5"}', "thing.small: must be a 32-bit integer"],
    ['{"large":"9223372036854775808"}', "thing.large: must be a 64-bit integer"],
    ['{"single":1e39}', "thing.single: must be a number"],
    ['{"data":"*"}', "thing.data: must be bytes in base64"],
    ['{"colour":"RED"}', "thing.colour: must be one of COLOUR_UNSPECIFIED, COLOUR_RED"],
    ['{"speed":"FAST"}', "thing.speed: must be one of fast, slow"],
    ['{"speed":1}', "thing.speed: must be one of fast, slow"],
    ['{"texts":["a",1]}', "thing.texts[1]: must be a string"],
    ['{"texts":"a"}', "thing.texts: must be an array"],
    ['{"things":[{},{"inner":{"small":"x"}}]}', "thing.things[1].inner.small: must be a 32-bit integer"],
    ['{"counts":{"a b":true}}', "thing.counts['a b']: must be a 32-bit integer"],
    ['{"at":"yesterday"}', "thing.at: must be a time as in RFC 3339, such as 2024-02-29T12:00:00Z"],
    ['{"unsignedLarge":1,"unsigned_large":1}', "thing.unsigned_large: set twice, as unsignedLarge and unsigned_large"],
    ['{"left":"a","right":1}', "thing.right: left of the same oneof is already set"],
    ['{"texts":[null]}', "thing.texts[0]: must be a string"],
  ])("%s is a request error", async (body, message) => {
    expect(await echo(body)).toEqual({ status: 400, body: { code: "invalid_argument", message } });
  });

  test("has the known fields in the error about an unknown one", async () => {
    const { status, body } = await echo('{"txet":""}');
    expect(status).toBe(400);
    expect(body).toMatchObject({ message: expect.stringMatching(/^thing\.txet: unknown; the fields are text, flag,/) });
  });

  test("null as the body unsets the field", async () => {
    expect(await echo("null")).toEqual({ status: 200, body: null });
  });
});

describe("an open object", () => {
  const open = (body: string) => server.send("PUT", "/things/open", { headers: json, body });

  test("returns undeclared keys, and null for a lenient field", async () => {
    const body = '{"id":"1","note":null,"tags":[],"x":null,"y":{"z":["ü",{}]},"constructor":"c"}';
    const reply = await open(body);
    expect(reply.status).toBe(201);
    expect(JSON.parse(reply.body)).toEqual(JSON.parse(body));
  });

  test("reads a lenient Struct from objects only", async () => {
    for (const map of [{ a: { b: 1 } }, {}, "text", 1, null, [1], true]) {
      expect(JSON.parse((await open(JSON.stringify({ id: "1", map, x: 1 }))).body)).toEqual({
        id: "1",
        tags: [],
        map,
        x: 1,
      });
    }
    let request;
    await using other = await serve({
      routes: (router) =>
        router.rpc(ThingsService.method.openThing, (message) => {
          request = message;
          return {};
        }),
    });
    await other.send("PUT", "/things/open", { headers: json, body: '{"id":"1","map":{"a":1}}' });
    expect(request).toMatchObject({ map: { a: 1 } });
    await other.send("PUT", "/things/open", { headers: json, body: '{"id":"1","map":"text"}' });
    expect(request).toMatchObject({ others: { map: "text" } });
  });

  test.each<[what: string, response: MessageInitShape<typeof OpenThingResponseSchema>, body: object]>([
    ["that are set", { id: "real", note: "n" }, { id: "real", note: "n", tags: [], x: 1 }],
    ["that are not, but for a lenient one", {}, { note: 2, tags: [], x: 1 }],
  ])("sends no undeclared key in place of declared fields %s", async (_what, response, body) => {
    const others = { id: "fake", tags: "fake", note: 2, x: 1 };
    await using other = await serve({
      routes: (router) => router.rpc(ThingsService.method.openThing, () => ({ ...response, others })),
    });
    const reply = await other.send("PUT", "/things/open", { headers: json, body: '{"id":"1"}' });
    expect(JSON.parse(reply.body)).toEqual(body);
  });

  test("has the field with the option always", async () => {
    expect((await open('{"id":"1"}')).body).toBe('{"id":"1","tags":[]}');
  });

  test.each([
    ["{}", "id: is missing"],
    ['{"id":"1","tags":null}', "tags: must be an array, not null"],
  ])("%s is a request error", async (body, message) => {
    const reply = await open(body);
    expect([reply.status, JSON.parse(reply.body)]).toEqual([400, { code: "invalid_argument", message }]);
  });
});

describe("a form", () => {
  const send = (body: string) => server.send("POST", "/things/form", { headers: form, body });

  test.each([
    ["user_name=a%20b+c&age=-7&admin=true&speed=slow", '{"userName":"a b c","age":-7,"admin":true,"speed":"slow"}'],
    ["userName=%C3%BC%26%3D", '{"userName":"ü&="}'],
    ["user_name=ü", '{"userName":"ü"}'],
    ["&&user_name=", "{}"],
    ["", "{}"],
    ["user_name=%2500", '{"userName":"%00"}'],
  ])("%s", async (body, response) => {
    expect(await send(body)).toMatchObject({ status: 200, body: response });
  });

  test.each([
    ["age=010", "age: must be a 32-bit integer"],
    ["age=", "age: must be a 32-bit integer"],
    ["admin=1", "admin: must be true or false"],
    ["speed=1", "speed: must be one of fast, slow"],
    ["age=1&age=2", "age: set more than once"],
    ["user_name=1&userName=2", "user_name: set more than once"],
    ["user_name[]=1", "user_name: is not a map, so it has no keys"],
    ["user_name.x=1", "user_name: has no fields"],
    ["user_name=%zz", "the form is not valid percent-encoded UTF-8"],
    ["user_name=%ff", "the form is not valid percent-encoded UTF-8"],
    ["__proto__=1", "__proto__: unknown parameter; the parameters are user_name, age, admin, speed"],
  ])("%s is a request error", async (body, message) => {
    const reply = await send(body);
    expect([reply.status, JSON.parse(reply.body)]).toEqual([400, { code: "invalid_argument", message }]);
  });
});

describe("header fields", () => {
  test("are read from the request and sent with the response", async () => {
    const reply = await server.send("GET", "/things/headers", { headers: { "X-SPEED": "fast", "x-count": "3" } });
    expect(reply).toMatchObject({ status: 200, headers: { "x-count": "3" }, body: '{"speed":"fast"}' });
  });

  test.each([
    [
      { "x-speed": "Fast" },
      { code: "invalid_argument", reason: "bad_speed", message: "X-Speed: must be one of fast, slow" },
    ],
    [
      { "x-speed": "" },
      { code: "invalid_argument", reason: "bad_speed", message: "X-Speed: must be one of fast, slow" },
    ],
    [{ "x-count": "1e3" }, { code: "invalid_argument", message: "X-Count: must be a 32-bit integer" }],
  ])("%j is a request error", async (headers, body) => {
    const reply = await server.send("GET", "/things/headers", { headers });
    expect([reply.status, JSON.parse(reply.body)]).toEqual([400, body]);
  });
});
