import { toJson, type DescMessage, type Message } from "@bufbuild/protobuf";
import { SourceCodeInfo_LocationSchema } from "@bufbuild/protobuf/wkt";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { BodiesSchema, QueryMsgSchema, UpdateMessageRequestSchema } from "./gen/t/v1/vectors_pb.ts";
import { AnysService, ParcelSchema } from "./gen/gatewaytest/v1/anys_pb.ts";
import { OpenThingRequestSchema, ThingSchema } from "./gen/gatewaytest/v1/things_pb.ts";
import { createGateway, presets, type Gateway, type GatewayOptions } from "../src/index.ts";
import type { GatewayResponse } from "../src/http/response.ts";
import { anyMessage, anyTypes } from "./any-message.ts";
import { createMethod, createRequest } from "./service.ts";
import { propertyRuns } from "./property-runs.ts";

type Options = Omit<GatewayOptions, "routes">;

const form = "application/x-www-form-urlencoded";

/** Messages of all kinds, with a field for the path and one for the body. */
const messages: [desc: DescMessage, variable: string, body: string][] = [
  [QueryMsgSchema, "nested.string_value", "any_value"],
  [BodiesSchema, "count", "raw"],
  [ThingSchema, "at", "by_name"],
  [ParcelSchema, "thing.large", "items"],
  [UpdateMessageRequestSchema, "update_mask", "message"],
  [OpenThingRequestSchema, "note", "others"],
  [SourceCodeInfo_LocationSchema, "leading_comments", "path"],
];

const optionSets: Options[] = [
  {},
  presets.grpcGateway,
  presets.envoy,
  presets.vanguard,
  { errors: "problem", unknownQuery: "ignore", strictTemplates: true, compression: false, registry: anyTypes },
  { errors: (error) => ({ body: { reason: error.reason, details: error.details() } }), readMaxBytes: 60, maxDepth: 3 },
  { cors: { origins: ["https://app.example"] }, boundQuery: "ignore", compression: { minBytes: 0 } },
];

/** Serves an echo of the message with every kind of rule. */
function createEchoOf([desc, variable, body]: (typeof messages)[number], options: Options, isForm: boolean): Gateway {
  const method = createMethod(
    desc,
    {
      pattern: { case: "post", value: "/m" },
      body: "*",
      additionalBindings: [
        { pattern: { case: "get", value: "/m" } },
        { pattern: { case: "get", value: `/m/{${variable}}` } },
        { pattern: { case: "put", value: `/m/{${variable}}:verb` }, body: isForm ? "*" : body },
        { pattern: { case: "custom", value: { kind: "*", path: "/any/**" } } },
      ],
    },
    { consumes: isForm ? ["application/json", form] : [] },
  );
  return createGateway({ ...options, routes: (router) => router.rpc(method, (message: Message) => message) });
}

const oddWords = [
  '{"a":1}',
  '{"@type":"x/y.Z"}',
  "2020-01-01T00:00:00Z",
  "__proto__",
  "constructor",
  "😀",
  "\u00ff",
  "\0",
];
const word = fc.constantFrom(
  ..."& = . [ ] : / % %2 %ff %2F + null true 1 -0 1e400 9223372036854775808 {} [] [null] 1s AQ== a.b".split(" "),
  ...oddWords,
);
const piece = fc.oneof(word, fc.string({ maxLength: 3 }));

function textFor(desc: DescMessage): fc.Arbitrary<string> {
  const names = desc.fields.flatMap(({ name, jsonName }) => [name, jsonName]);
  return fc.array(fc.oneof(fc.constantFrom(...names), piece), { maxLength: 8 }).map((pieces) => pieces.join(""));
}

/** A query of known parameters. */
function queryFor(desc: DescMessage): fc.Arbitrary<string> {
  const names = desc.fields.flatMap(({ name, message }) => [
    name,
    `${name}[a]`,
    ...(message?.fields.map((inner) => `${name}.${inner.name}`) ?? []),
  ]);
  return fc
    .array(fc.tuple(fc.constantFrom(...names), word), { maxLength: 3 })
    .map((pairs) => pairs.map(([name, text]) => `${name}=${encodeURIComponent(text)}`).join("&"));
}

const type = (name: string): string => `type.googleapis.com/${name}`;
const oddValues = [
  ...oddWords,
  ..."1s a.b AQ== A_b 9999-12-31T23:59:59.999999999Z NaN -Infinity \ud800".split(" "),
  null,
  "",
  "1",
  -0,
  1e300,
  2 ** 63,
  {},
  [],
  [null],
  [[]],
  { a: null },
  { a: {} },
  { "": 1 },
  { "@type": type("google.protobuf.Any"), value: {} },
  { "@type": type("google.protobuf.Value"), value: null },
  { "@type": type("gatewaytest.v1.Parcel"), item: { "@type": type("google.protobuf.Duration"), value: "1s" } },
];
const value = fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.constantFrom<unknown>(...oddValues));

/** A body with fields of the message, a corrupted message, or arbitrary text. */
function bodyFor(desc: DescMessage): fc.Arbitrary<string | Uint8Array> {
  const name = fc.constantFrom(...desc.fields.flatMap(({ name: own, jsonName }) => [own, jsonName]));
  const inner = fc.oneof(value, fc.dictionary(name, value, { maxKeys: 2 }));
  const whole = anyMessage(desc, { depth: 1 }).map((message) =>
    JSON.stringify(toJson(desc, message, { registry: anyTypes })),
  );
  return fc.oneof(
    fc.dictionary(name, inner, { maxKeys: 3 }).map((each) => JSON.stringify(each)),
    whole,
    fc
      .tuple(whole, fc.nat(), fc.nat(3), piece)
      .map(([text, at, cut, put]) => text.slice(0, at % text.length) + put + text.slice((at % text.length) + cut)),
    textFor(desc),
    fc.json(),
    fc.uint8Array({ maxLength: 30 }),
  );
}

const contentType = fc.oneof(
  fc.constantFrom("application/json", form, "multipart/form-data; boundary=a", "application/x-ndjson", "", "*/*"),
  fc.string({ maxLength: 6 }),
);
const headers = fc.dictionary(
  fc.constantFrom(
    ..."accept accept-encoding content-encoding if-match if-none-match grpc-timeout connect-timeout-ms".split(" "),
    ..."x-server-timeout origin access-control-request-method x-count x-speed".split(" "),
  ),
  fc.oneof(
    fc.string({
      unit: fc.constantFrom(...'gzip br * ;q= 0 1.0 , " W/ application/json S identity fast'.split(" "), " "),
      maxLength: 5,
    }),
    fc.string({ maxLength: 6 }),
  ),
  { maxKeys: 2 },
);

/** Compiled once for each message, since the arbitraries are large. */
const requests = messages.map((message) => {
  const [desc] = message;
  const gateways = optionSets.flatMap((options) => [
    createEchoOf(message, options, false),
    createEchoOf(message, options, true),
  ]);
  const text = textFor(desc);
  const query = fc.oneof(queryFor(desc), text);
  const path = fc.oneof(word.map(encodeURIComponent), text);
  const pathAndQuery = (tail: string) => fc.tuple(path, query).map(([part, rest]) => `${part}${tail}?${rest}`);
  const body = bodyFor(desc);
  const none = fc.constant(undefined);
  const operation = fc.oneof(
    fc.tuple(fc.constant("POST"), fc.constant("/m"), body),
    fc.tuple(fc.constant("PUT"), fc.constant("/m/1:verb"), body),
    fc.tuple(
      fc.constant("PUT"),
      pathAndQuery(":verb").map((rest) => `/m/${rest}`),
      body,
    ),
    fc.tuple(
      fc.constantFrom("GET", "HEAD"),
      query.map((rest) => `/m?${rest}`),
      none,
    ),
    fc.tuple(
      fc.constantFrom("GET", "HEAD"),
      pathAndQuery("").map((rest) => `/m/${rest}`),
      none,
    ),
    fc.tuple(
      fc.constantFrom("GET", "POST", "PUT", "OPTIONS", "PURGE"),
      fc.oneof(
        pathAndQuery("").map((rest) => `/any/${rest}`),
        text,
      ),
      fc.oneof(none, body),
    ),
  );
  return fc.record({
    gateway: fc.constantFrom(...gateways),
    request: fc
      .tuple(
        operation,
        fc.oneof({ weight: 3, arbitrary: fc.constant("application/json") }, { weight: 1, arbitrary: contentType }),
      )
      .map(([[method, target, sent], mediaType]) => createRequest(method, target, sent, mediaType)),
    more: fc.oneof({ weight: 2, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: headers }),
  });
});

test("no input results in a 500, for any message and options", async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(...requests), async ({ gateway, request, more }) => {
      const { status } = await gateway.handle({ ...request, headers: { ...request.headers, ...more } });
      expect(status).not.toBe(500);
    }),
    propertyRuns(6000),
  );
});

test("no input results in a 500 of a stream", async () => {
  const gateways = optionSets.map((options) =>
    createGateway({
      ...options,
      routes: (router) =>
        router.service(AnysService, {
          async *echoParcels(parcels) {
            yield* parcels;
          },
          async *watchParcel(parcel) {
            yield parcel;
            yield parcel;
          },
        }),
    }),
  );
  const line = bodyFor(ParcelSchema).map((body) => Buffer.from(body));
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...gateways),
      fc.constantFrom("/anys/stream", "/anys/watch"),
      fc.array(line, { maxLength: 3 }),
      headers,
      async (gateway, target, lines, more) => {
        const body = Buffer.concat(lines.flatMap((each) => [each, Buffer.from("\n")]));
        const posted = createRequest(
          "POST",
          target,
          body,
          target === "/anys/watch" ? "application/json" : "application/x-ndjson",
        );
        const response = await gateway.handle({
          ...posted,
          httpVersionMajor: 2,
          headers: { ...posted.headers, "accept-encoding": "identity", ...more },
        });
        expect(response.status).not.toBe(500);
        expect(await read(response)).not.toMatch(/"internal"|internal error/);
      },
    ),
    propertyRuns(2000),
  );
});

/** Reads a body as far as possible: a stream is aborted after an in-band error. */
async function read({ body }: GatewayResponse): Promise<string> {
  if (typeof body !== "object" || body instanceof Uint8Array) {
    return typeof body === "object" ? Buffer.from(body).toString() : String(body);
  }
  let text = "";
  try {
    for await (const piece of body) {
      text += Buffer.from(piece).toString();
    }
  } catch {
    return text;
  }
  return text;
}
