import { toBinary, create, setExtension, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import { anyPack, DurationSchema, MessageOptionsSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { UnauthorizedSchema } from "../../../../gen/flowgate/v1/access_pb.ts";
import { AuthService, TokenErrorReason, TokenErrorSchema } from "../../../../gen/flowgate/v1/auth_pb.ts";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { error as errorExtension, ErrorRuleSchema } from "../../gen/flowgate/gateway/v1/annotations_pb.ts";
import { ParcelSchema } from "../gen/gatewaytest/v1/anys_pb.ts";
import { StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService, ThingSchema } from "../gen/gatewaytest/v1/things_pb.ts";
import { nameOfCode } from "../../src/errors/codes.ts";
import { createGateway, type GatewayOptions, type GatewayError } from "../../src/index.ts";
import { form, json, serve } from "../serve.ts";
import { createRequest } from "../service.ts";
import { vectors } from "../vectors.ts";

/** A service whose GET /things/headers fails with this error; PUT /things/open succeeds. */
function failing(error: unknown, more: Partial<GatewayOptions> = {}): GatewayOptions {
  return {
    ...more,
    routes: (router) =>
      void router
        .rpc(ThingsService.method.getHeaders, () => {
          throw error;
        })
        .rpc(ThingsService.method.openThing, () => ({ id: "x" })),
  };
}

/** An error with a code outside of the enum. */
const withCode = (code: number) => Object.assign(new ConnectError("m"), { code });

describe("status vectors", () => {
  test.each(vectors<{ number: number; code: string; expect: { status: number } }>("status"))(
    "%s",
    async (_id, { number, code, expect: { status } }) => {
      await using server = await serve(failing(withCode(number)));
      const reply = await server.send("GET", "/things/headers");
      expect([reply.status, JSON.parse(reply.body)]).toEqual([status, { code, message: "m" }]);
    },
  );
});

test.each([0, 17, 99, -1, 1.5, Number.NaN])("an unknown code, %d, is 500", async (code) => {
  for (const errors of ["plain", "problem", "status"] as const) {
    await using server = await serve(failing(withCode(code), { errors }));
    const reply = await server.send("GET", "/things/headers");
    expect([reply.status, JSON.parse(reply.body)]).toMatchObject([500, { code: errors === "status" ? 2 : "unknown" }]);
  }
});

const rich = new ConnectError("no flow", Code.NotFound, { "x-hint": "h" }, [
  { desc: ErrorInfoSchema, value: { reason: "no_flow", domain: "flows.example" } },
  { desc: ThingSchema, value: { text: "t", large: 2n ** 60n } },
  { desc: DurationSchema, value: { seconds: 3n } },
]);

const details = [
  { "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "no_flow", domain: "flows.example" },
  { "@type": "type.googleapis.com/gatewaytest.v1.Thing", text: "t", large: "1152921504606846976" },
  { "@type": "type.googleapis.com/google.protobuf.Duration", value: "3s" },
];

describe("the format of an error", () => {
  test.each([
    ["plain", "application/json", { code: "not_found", message: "no flow", reason: "no_flow", details }],
    [
      "problem",
      "application/problem+json",
      {
        type: "about:blank",
        title: "Not Found",
        status: 404,
        detail: "no flow",
        code: "not_found",
        reason: "no_flow",
        details,
      },
    ],
    ["status", "application/json", { code: 5, message: "no flow", details }],
    ["google", "application/json", { error: { code: 404, message: "no flow", status: "NOT_FOUND", details } }],
  ] as const)("%s", async (errors, contentType, body) => {
    await using server = await serve(failing(rich, { errors }));
    const reply = await server.send("GET", "/things/headers");
    expect([reply.status, reply.headers["content-type"], reply.headers["x-hint"], JSON.parse(reply.body)]).toEqual([
      404,
      contentType,
      "h",
      body,
    ]);
  });

  test.each([
    ["GET", "/nowhere", {}, undefined, 404, "not_found", 5, {}],
    ["DELETE", "/things/headers", {}, undefined, 405, "method_not_allowed", 12, { allow: "GET, HEAD, OPTIONS" }],
    ["GET", "/things/headers", { accept: "text/html" }, undefined, 406, "not_acceptable", 3, {}],
    ["PUT", "/things/open", json, `{"id":"${"x".repeat(200)}"}`, 413, "payload_too_large", 8, {}],
    [
      "PUT",
      "/things/open",
      { "content-type": "text/plain" },
      "x",
      415,
      "unsupported_media_type",
      3,
      { "accept-post": "application/json" },
    ],
    ["PUT", "/things/open", json, "{", 400, "invalid_json", 3, {}],
  ] as const)("is one, also for %s %s %j", async (method, path, headers, body, status, reason, code, expected) => {
    const send = async (errors: GatewayOptions["errors"]) => {
      await using server = await serve(failing(rich, { errors: errors ?? "plain", readMaxBytes: 100 }));
      const reply = await server.send(method, path, { headers, ...(body === undefined ? {} : { body }) });
      expect([reply.status, reply.headers]).toMatchObject([status, expected]);
      return { type: reply.headers["content-type"], body: JSON.parse(reply.body) as { message: string } };
    };
    const plain = await send("plain");
    const { message } = plain.body;
    const named = { code: nameOfCode(code), ...(reason !== nameOfCode(code) && { reason }) };
    expect(plain).toEqual({ type: "application/json", body: { ...named, message } });
    expect(await send("problem")).toEqual({
      type: "application/problem+json",
      body: { type: "about:blank", title: expect.any(String), status, detail: message, ...named },
    });
    expect(await send("status")).toEqual({ type: "application/json", body: { code, message, details: [] } });
    expect(await send("google")).toEqual({
      type: "application/json",
      body: { error: { code: status, message, status: expect.stringMatching(/^[A-Z_]+$/) } },
    });
    const custom = await send((error) => ({ body: { own: error.reason, code: error.code } }));
    expect(custom).toEqual({ type: "application/json", body: { own: reason, code } });
  });

  test("of a value that is no ConnectError reveals nothing, in every format", async () => {
    for (const errors of ["plain", "problem", "status", "google"] as const) {
      await using server = await serve(failing(new Error("secret of the inside"), { errors }));
      const reply = await server.send("GET", "/things/headers");
      expect(reply.status).toBe(500);
      expect(reply.body).not.toContain("secret");
      expect(reply.body).toContain("internal error");
    }
  });

  test("is for a function to make: status, headers, and a body of any kind", async () => {
    const seen: GatewayError[] = [];
    await using server = await serve(
      failing(rich, {
        errors: (error) => {
          seen.push(error);
          return {
            status: 418,
            headers: { "content-type": "text/plain", "x-own": "1", "x-bad": "é\r\n" },
            body: "tea",
          };
        },
      }),
    );
    const reply = await server.send("GET", "/things/headers");
    expect(reply).toMatchObject({
      status: 418,
      headers: { "content-type": "text/plain", "x-own": "1", "x-hint": "h" },
      body: "tea",
    });
    expect(reply.headers["x-bad"]).toBeUndefined();
    expect(seen[0]).toMatchObject({ status: 404, code: Code.NotFound, reason: "no_flow", message: "no flow" });
    expect([seen[0]?.details(), seen[0]?.cause]).toEqual([details, rich]);
    await using empty = await serve(failing(rich, { errors: () => ({}) }));
    expect(await empty.send("GET", "/things/headers")).toMatchObject({
      status: 404,
      headers: { "content-length": "0" },
      body: "",
    });
  });

  test.each([
    [
      () => {
        throw new Error("a mistake");
      },
    ],
    [() => ({ status: 200 })],
    [() => ({ status: 1000 })],
    [() => undefined as never],
    [() => ({ body: { n: 1n } })],
  ])("of a function that fails is a plain 500 response: %s", async (errors) => {
    await using server = await serve(failing(rich, { errors }));
    const reply = await server.send("GET", "/things/headers");
    expect([reply.status, JSON.parse(reply.body)]).toEqual([500, { code: "internal", message: "internal error" }]);
  });

  test("with an unknown name is rejected at start-up", () => {
    expect(() => createGateway(failing(rich, { errors: "xml" as never }))).toThrow(
      'the option errors must be "plain", "problem", "status", "google" or a function, not "xml"',
    );
  });
});

describe("details", () => {
  test("that were received from another service are JSON if their type is known, and omitted otherwise", async () => {
    const error = new ConnectError("m", Code.Internal);
    error.details = [
      { type: "google.rpc.ErrorInfo", value: toBinary(ErrorInfoSchema, create(ErrorInfoSchema, { reason: "r" })) },
      { type: "gatewaytest.v1.Thing", value: toBinary(ThingSchema, create(ThingSchema, { large: 2n ** 60n })) },
      { type: "nobody.knows.This", value: Uint8Array.of(1, 2, 3) },
      { type: "gatewaytest.v1.Thing", value: Uint8Array.of(255) },
    ];
    await using server = await serve(failing(error, { errors: "status" }));
    expect(JSON.parse((await server.send("GET", "/things/headers")).body)).toEqual({
      code: 13,
      message: "m",
      details: [
        { "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "r" },
        { "@type": "type.googleapis.com/gatewaytest.v1.Thing", large: "1152921504606846976" },
      ],
    });
  });

  test("whose type is known to the implementation only are JSON, too", async () => {
    const error = new ConnectError("m", Code.Internal, undefined, [{ desc: TokenErrorSchema, value: {} }]);
    // Without the option it is an ordinary detail; with it, it is the response.
    await using server = await serve(failing(error, { errors: "status" }));
    expect((await server.send("GET", "/things/headers")).body).not.toContain("details");
    expect(anyPack(DurationSchema, create(DurationSchema)).typeUrl).toBe(
      "type.googleapis.com/google.protobuf.Duration",
    );
  });

  test.each(["plain", "problem", "status"] as const)(
    "with the error option take precedence over %s",
    async (errors) => {
      const error = new ConnectError("x", Code.ResourceExhausted, undefined, [
        { desc: TokenErrorSchema, value: { error: TokenErrorReason.TEMPORARILY_UNAVAILABLE, retryAfter: 7 } },
      ]);
      await using server = await serve({
        errors,
        routes: (router) =>
          void router.rpc(AuthService.method.issueToken, () => {
            throw error;
          }),
      });
      expect(await server.send("POST", "/auth/token", { headers: form, body: "" })).toMatchObject({
        status: 429,
        headers: { "retry-after": "7", "content-type": "application/json" },
        body: '{"error":"temporarily_unavailable"}',
      });
      // The same applies to the message in the method's request_error.
      expect(await server.send("POST", "/auth/token", { headers: json, body: "{" })).toMatchObject({
        status: 400,
        body: expect.stringContaining('"error":"invalid_request"'),
      });
    },
  );
});

/** A copy of the message with this (flowgate.gateway.v1.error) option. */
function withErrorRule<D extends DescMessage>(desc: D, rule: MessageInitShape<typeof ErrorRuleSchema> = {}): D {
  const options = create(MessageOptionsSchema);
  setExtension(options, errorExtension, create(ErrorRuleSchema, rule));
  return { ...desc, proto: { ...desc.proto, options } };
}

/** A message that can't be a response, since a map has the header option. */
const unsendable: DescMessage = {
  ...ThingSchema,
  fields: [{ ...ThingSchema.field.counts, proto: UnauthorizedSchema.field.challenge.proto }],
};

describe("a detail with the error option that can't be written", () => {
  const shape = withErrorRule(ThingSchema, { status: 409 });
  const details: [what: string, detail: ConnectError["details"][number]][] = [
    ["holds a time beyond the year 9999", { desc: shape, value: { at: { seconds: 10n ** 14n } } }],
    [
      "holds an Any of an unknown type",
      { desc: withErrorRule(ParcelSchema), value: { item: { typeUrl: "x/none.None" } } },
    ],
    ["is of a type that can't be compiled", { desc: withErrorRule(unsendable), value: {} }],
  ];
  const message = "internal error";
  const formats: [errors: NonNullable<GatewayOptions["errors"]>, type: string, body: object][] = [
    ["plain", "application/json", { code: "internal", message }],
    [
      "problem",
      "application/problem+json",
      { type: "about:blank", title: "Internal Server Error", status: 500, detail: message, code: "internal" },
    ],
    ["status", "application/json", { code: 13, message, details: [] }],
    [({ reason, status }) => ({ body: { reason, status } }), "application/json", { reason: "internal", status: 500 }],
  ];

  const throwing = (detail: ConnectError["details"][number]): ConnectError => {
    const error = new ConnectError("m", Code.Aborted, { "x-hint": "h" });
    error.details.push(detail);
    return error;
  };

  describe.each(details)("because it %s", (_what, detail) => {
    test.each(formats)("is 500 in the format of the option: %s", async (errors, type, body) => {
      await using server = await serve(failing(throwing(detail), { errors }));
      const reply = await server.send("GET", "/things/headers");
      expect([reply.status, reply.headers["content-type"], JSON.parse(reply.body)]).toEqual([500, type, body]);
      const gate = (): void => {
        throw throwing(detail);
      };
      await using gated = await serve(failing(undefined, { errors, requestGate: gate }));
      expect(await gated.send("GET", "/things/headers")).toMatchObject({ status: 500, body: reply.body });
    });

    test.each(formats)("is the in-band error of a stream: %s", async (errors, _type, body) => {
      const gateway = createGateway({
        errors,
        routes: (router) =>
          router.rpc(StreamsService.method.list, async function* () {
            yield { text: "a" };
            throw throwing(detail);
          }),
      });
      for (const [accept, expected] of [
        ["application/x-ndjson", `{"text":"a"}\n{"error":${JSON.stringify(body)}}\n`],
        ["text/event-stream", `data: {"text":"a"}\n\nevent: error\ndata: ${JSON.stringify(body)}\n\n`],
      ] as const) {
        const request = { ...createRequest("GET", "/streams/s/items"), headers: { accept } };
        const { body: stream } = await gateway.handle(request);
        let text = "";
        const read = async (): Promise<void> => {
          for await (const piece of stream as AsyncIterable<string>) {
            text += piece;
          }
        };
        await expect(read()).rejects.toThrow("m");
        expect(text).toBe(expected);
      }
    });
  });
});

describe("headers of an error", () => {
  test("WWW-Authenticate comes from metadata or a detail, never from the message", async () => {
    await using bare = await serve(failing(new ConnectError('Bearer realm="x"', Code.Unauthenticated)));
    const reply = await bare.send("GET", "/things/headers");
    expect([reply.status, reply.headers["www-authenticate"]]).toEqual([401, undefined]);
    const challenged = new ConnectError("no", Code.Unauthenticated, { "www-authenticate": "Bearer" });
    await using said = await serve(failing(challenged));
    expect((await said.send("GET", "/things/headers")).headers["www-authenticate"]).toBe("Bearer");
  });

  test("are omitted if they are connection-specific, of another protocol, or not ASCII", async () => {
    const metadata = new Headers({ "x-good": "1", "x-latin": "caf\u00e9", "x-control": "a\u0001b", "x-del": "\u007f" });
    for (const name of [
      "connection",
      "keep-alive",
      "te",
      "trailer",
      "transfer-encoding",
      "upgrade",
      "proxy-connection",
      "http2-settings",
      "content-length",
      "content-encoding",
      "content-type",
      "grpc-status",
      "grpc-message",
      "connect-protocol-version",
    ]) {
      metadata.set(name, "17");
    }
    metadata.append("__proto__", "p");
    metadata.append("constructor", "c");
    metadata.append("set-cookie", "a=1");
    metadata.append("set-cookie", "b=2");
    await using server = await serve(failing(new ConnectError("m", Code.NotFound, metadata)));
    const { status, headers } = await server.send("GET", "/things/headers");
    expect(status).toBe(404);
    for (const own of ["date", "connection", "keep-alive"]) {
      // Set by Node's server; those of the metadata would have the value 17.
      expect(headers[own]).not.toBe("17");
      delete headers[own];
    }
    expect(headers).toEqual({
      constructor: "c",
      "set-cookie": ["a=1", "b=2"],
      "x-good": "1",
      "content-type": "application/json",
      "content-length": "34",
    });
  });

  test("a header field can't inject another header", async () => {
    const error = new ConnectError("x", Code.Unauthenticated, undefined, [
      { desc: UnauthorizedSchema, value: { challenge: "Bearer\r\nx-evil: 1" } },
    ]);
    await using server = await serve(failing(error));
    const reply = await server.send("GET", "/things/headers");
    expect([reply.status, reply.headers["www-authenticate"], reply.headers["x-evil"]]).toEqual([
      401,
      "Bearer%0D%0Ax-evil: 1",
      undefined,
    ]);
  });
});
