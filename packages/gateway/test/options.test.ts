import { describe, expect, test } from "vitest";
import { fastify } from "fastify";
import { createFrameworkErrorHandler, fastifyGatewayPlugin } from "../src/adapters/fastify/index.ts";
import { createFetchHandler, createRestFetchHandler } from "../src/adapters/fetch/index.ts";
import { createNodeHandler } from "../src/adapters/node/index.ts";
import { createRestTransport } from "../src/client/index.ts";
import { createGateway, createRequestDecoder, createRestGateway, openapi, type GatewayOptions } from "../src/index.ts";
import { ThingsService } from "./gen/gatewaytest/v1/things_pb.ts";

const routes: GatewayOptions["routes"] = (router) => router.service(ThingsService, {});

const known =
  "routes, protocols, health, reflection, requestPathPrefix, interceptors, requestGate, mapError, onError, rules, strictTemplates, googleTemplates, unknownQuery, boundQuery, " +
  "ignoredQuery, ignoreTrailingSlash, fieldMaskFromBody, readMaxBytes, maxDepth, " +
  "prototypeKeys, deferred, maxTimeoutMs, shutdownSignal, streams, compression, registry, jsonOptions, errorDomain, cors, errors";

describe("a misspelt option", () => {
  test.each([
    [{ unkownQuery: "ignore" }, "there is no option unkownQuery; did you mean unknownQuery?"],
    [{ readMaxByte: 1 }, "there is no option readMaxByte; did you mean readMaxBytes?"],
    [{ ignoreQuery: [] }, "there is no option ignoreQuery; did you mean ignoredQuery?"],
    [{ googleTemplate: true }, "there is no option googleTemplate; did you mean googleTemplates?"],
    [{ fieldMask: true }, "there is no option fieldMask; did you mean fieldMaskFromBody?"],
    [{ MAXDEPTH: 1 }, "there is no option MAXDEPTH; did you mean maxDepth?"],
    [{ verbose: true }, `there is no option verbose; the options are ${known}`],
    [{ constructor: 1 }, `there is no option constructor; the options are ${known}`],
    [{ health: { serve: () => true } }, "there is no option health.serve; did you mean health.serves?"],
    [
      { jsonOptions: { int64AsNumbers: true } },
      "there is no option jsonOptions.int64AsNumbers; did you mean jsonOptions.int64AsNumber?",
    ],
    [{ streams: { prefered: "sse" } }, "there is no option streams.prefered; did you mean streams.preferred?"],
    [{ compression: { encoding: [] } }, "there is no option compression.encoding; did you mean compression.encodings?"],
    [{ cors: { origins: [], origin: "x" } }, "there is no option cors.origin; did you mean cors.origins?"],
    [
      { rules: [{ selector: "x", options: { statuss: 201 } }] },
      "there is no option rules[0].options.statuss; did you mean rules[0].options.status?",
    ],
    [{ rules: [{ selector: "x", patern: {} }] }, "there is no option rules[0].patern; did you mean rules[0].pattern?"],
    [
      { rules: [{ selector: "x", additionalBindings: [{ bodi: "*" }] }] },
      "there is no option rules[0].additionalBindings[0].bodi; did you mean rules[0].additionalBindings[0].body?",
    ],
    [
      { rules: [{ selector: "x", options: { headers: [{ names: "x" }] } }] },
      "there is no option rules[0].options.headers[0].names; did you mean rules[0].options.headers[0].name?",
    ],
    [
      { rules: [{ selector: "x", options: { variants: { variants: [{ statuss: 1 }] } } }] },
      "there is no option rules[0].options.variants.variants[0].statuss; did you mean rules[0].options.variants.variants[0].status?",
    ],
  ])("is an error that suggests a name: %j", (options, message) => {
    expect(() => createGateway({ routes, ...(options as object) })).toThrow(new Error(message));
  });
});

describe("a wrong value", () => {
  test.each([
    [{ routes: undefined }, "the option routes is missing: it must be a function"],
    [{ routes: {} }, "the option routes must be a function, not an object"],
    [{ interceptors: () => {} }, "the option interceptors must be an array of functions, not a function"],
    [{ interceptors: [{}] }, "the option interceptors must be an array of functions, not [an object]"],
    [
      { health: "yes" },
      'the option health must be true, false or an object with serves, onChange, admitWatch, not "yes"',
    ],
    [{ health: { serves: true } }, "the option health.serves must be a function, not true"],
    [{ protocols: [] }, 'the option protocols must be an array of "connect", "grpc", "grpc-web", "rest", not []'],
    [{ strictTemplates: "no" }, 'the option strictTemplates must be true or false, not "no"'],
    [{ unknownQuery: "yes" }, 'the option unknownQuery must be "reject" or "ignore", not "yes"'],
    [{ boundQuery: true }, 'the option boundQuery must be "reject" or "ignore", not true'],
    [{ ignoredQuery: "key" }, 'the option ignoredQuery must be an array of strings, not "key"'],
    [{ ignoredQuery: [/key/] }, "the option ignoredQuery must be an array of strings, not [an object]"],
    [{ fieldMaskFromBody: 1 }, "the option fieldMaskFromBody must be true or false, not 1"],
    [{ readMaxBytes: "4mb" }, 'the option readMaxBytes must be a number from 0 to 9007199254740991, not "4mb"'],
    [{ maxDepth: Number.NaN }, "the option maxDepth must be a number from 1 to 500, not NaN"],
    [{ maxTimeoutMs: 0 }, "the option maxTimeoutMs must be a number from 1 to 2147483647, not 0"],
    [{ deferred: [{}] }, "the option deferred must be an array of methods of protobuf-es, not [an object]"],
    [{ streams: "sse" }, 'the option streams must be an object with heartbeatMs, preferred, json, not "sse"'],
    [{ streams: { preferred: "xml" } }, 'the option streams.preferred must be "ndjson", "sse" or "json", not "xml"'],
    [{ streams: { heartbeatMs: -1 } }, "the option streams.heartbeatMs must be a number from 0 to 2147483647, not -1"],
    [{ shutdownSignal: {} }, "the option shutdownSignal must be an AbortSignal, not an object"],
    [
      { compression: "gzip" },
      'the option compression must be true, false or an object with encodings, minBytes, streams, not "gzip"',
    ],
    [{ compression: { streams: 1 } }, "the option compression.streams must be true or false, not 1"],
    [{ registry: {} }, "the option registry must be a registry of protobuf-es, not an object"],
    [{ cors: {} }, "the option cors.origins is missing: it must be an array of strings or a function"],
    [{ cors: { origins: "*" } }, 'the option cors.origins must be an array of strings or a function, not "*"'],
    [
      { cors: null },
      "the option cors must be an object with origins, credentials, allowHeaders, exposeHeaders, maxAgeSeconds, not null",
    ],
    [{ errors: "xml" }, 'the option errors must be "plain", "problem", "status", "google" or a function, not "xml"'],
    [{ rules: [{ pattern: {} }] }, "the option rules[0].selector is missing: it must be a string"],
    [
      { rules: [{ selector: "x", pattern: { case: "gett", value: "/x" } }] },
      'the option rules[0].pattern.case must be "get", "put", "post", "delete", "patch" or "custom", not "gett"',
    ],
  ])("is an error that says what is allowed: %j", (options, message) => {
    expect(() => createGateway({ routes, ...(options as object) })).toThrow(new Error(message));
  });

  test("undefined is the default", () => {
    const absent = { errors: undefined, cors: undefined, streams: { json: undefined } } as object;
    expect(createGateway({ routes, ...absent }).routes.length).toBeGreaterThan(0);
  });
});

test.each([{ protocols: ["rest"] }, { health: true }, { reflection: true }])(
  "a gateway of REST alone has no option %j",
  (options) => {
    const [name = ""] = Object.keys(options);
    for (const create of [createRestGateway, createRestFetchHandler]) {
      expect(() => create({ routes, ...(options as object) })).toThrow(`there is no option ${name}; `);
    }
  },
);

test("a fetch handler for gRPC alone is an error, since it would serve nothing", () => {
  expect(() => createFetchHandler({ routes, protocols: ["grpc"] })).toThrow(
    'a fetch handler can\'t serve gRPC, which needs trailers: the option protocols must have another protocol, such as "grpc-web"',
  );
});

test.each<[options: object, name: string, create?: (options: GatewayOptions) => unknown]>([
  [{ protocols: ["rest"], health: true }, "health"],
  [{ protocols: ["rest"], health: { serves: () => true } }, "health"],
  [{ protocols: ["rest"], reflection: true }, "reflection"],
  [{ protocols: ["rest", "grpc"], health: true }, "health", createFetchHandler],
])("services of gRPC can't be served over REST alone: %j", (options, name, create = createNodeHandler) => {
  expect(() => create({ routes, ...options })).toThrow(
    `the option ${name} is for a service of gRPC, which has no REST routes: the option protocols must have "grpc", "grpc-web" or "connect" too`,
  );
});

test("a service of gRPC that is off needs no protocol", () => {
  expect(createGateway({ routes, protocols: ["rest"], health: false, reflection: false }).routes).not.toEqual([]);
});

describe("a call without an options object", () => {
  const ofHandler = "the options must be an object with routes";
  test.each<[name: string, call: (options: never) => unknown, message: string]>([
    ["createGateway", createGateway, ofHandler],
    ["createRestGateway", createRestGateway, ofHandler],
    ["createNodeHandler", createNodeHandler, ofHandler],
    ["createFetchHandler", createFetchHandler, ofHandler],
    ["createRestFetchHandler", createRestFetchHandler, ofHandler],
    [
      "fastifyGatewayPlugin",
      (options) => {
        let thrown: Error | undefined;
        fastifyGatewayPlugin(fastify(), options, (error) => {
          thrown = error;
        });
        throw thrown ?? new Error("no error");
      },
      ofHandler,
    ],
    ["createRestTransport", createRestTransport, "the options must be an object with baseUrl"],
    [
      "openapi",
      (options) => openapi(options, { info: { title: "x", version: "1" } }),
      "the options of the handler, the first argument, must be an object with routes",
    ],
    [
      "openapi, for its document",
      (options) => openapi({ routes }, options),
      "the options of the document, the second argument, must be an object with info",
    ],
  ])("is an error that says what is missing: %s", (_name, call, message) => {
    expect(() => call(undefined as never)).toThrow(new Error(`${message}, not undefined`));
    expect(() => call(routes as never)).toThrow(new Error(`${message}, not a function`));
    expect(() => call(null as never)).toThrow(new Error(`${message}, not null`));
  });

  test("is no error where all options have defaults", () => {
    expect(createFrameworkErrorHandler()).toBeTypeOf("function");
    expect(() => createFrameworkErrorHandler(null as never)).toThrow(
      new Error("the options must be an object, not null"),
    );
  });
});

test("a fetch handler checks protocols before it selects those that it can serve", () => {
  expect(() => createFetchHandler({ routes, protocols: "rest" as never })).toThrow(
    new Error('the option protocols must be an array of "connect", "grpc", "grpc-web", "rest", not "rest"'),
  );
});

test("the decoder of deferred requests checks its options", () => {
  const { openThing } = ThingsService.method;
  expect(() => createRequestDecoder(openThing, { maxdepth: 1 } as object)).toThrow("did you mean maxDepth?");
});

describe("the options of an adapter", () => {
  const create: [name: string, create: (options: object) => unknown][] = [
    ["createNodeHandler", (options) => createNodeHandler({ routes, ...options })],
    ["createFetchHandler", (options) => createFetchHandler({ routes, ...options })],
    ["createRestFetchHandler", (options) => createRestFetchHandler({ routes, ...options })],
    ["fastifyGatewayPlugin", (options) => fastify().register(fastifyGatewayPlugin, { routes, ...options })],
  ];

  test.each(create)("are checked: %s", async (_name, open) => {
    for (const [options, message] of [
      [{ contextValue: () => {} }, "there is no option contextValue; did you mean contextValues?"],
      [{ unknownPath: "next" }, 'the option unknownPath must be "reject" or "pass", not "next"'],
      [{ unknownQuery: "yes" }, 'the option unknownQuery must be "reject" or "ignore", not "yes"'],
    ] as const) {
      await expect((async () => await open(options))()).rejects.toThrow(new Error(message));
    }
  });

  test("of Fastify's error handler are checked", () => {
    expect(() => createFrameworkErrorHandler({ error: "plain" } as object)).toThrow(
      "there is no option error; did you mean errors?",
    );
  });
});
