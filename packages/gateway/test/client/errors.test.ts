import { createRegistry } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { DeploymentErrorSchema, DeploymentErrorReason, FlowsService } from "../../../../gen/flowgate/v1/flows_pb.ts";
import { AuthService, TokenErrorReason, TokenErrorSchema } from "../../../../gen/flowgate/v1/auth_pb.ts";
import { UnauthorizedSchema } from "../../../../gen/flowgate/v1/access_pb.ts";
import {
  ErrorInfoSchema,
  file_google_rpc_error_details,
  RetryInfoSchema,
} from "../../gen/google/rpc/error_details_pb.ts";
import { createRestTransport } from "../../src/client/index.ts";
import { StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "../gen/gatewaytest/v1/things_pb.ts";
import { serve } from "../serve.ts";
import { callStream, callUnary, createCapturing, errorOf } from "./captured.ts";

const json = (status: number, body: unknown): Response => Response.json(body, { status });
const text = (status: number, body: string, type = "text/plain", statusText = ""): Response =>
  new Response(body, { status, statusText, headers: { "content-type": type } });

const fail = (respond: () => Response) =>
  errorOf(callUnary(createCapturing(respond), ThingsService.method.getHeaders, {}));

test.each<[name: string, respond: () => Response, code: Code, message: string]>([
  ["google.rpc.Status", () => json(400, { code: 9, message: "m", details: [] }), Code.FailedPrecondition, "m"],
  [
    "Google",
    () => json(409, { error: { code: 409, message: "m", status: "ALREADY_EXISTS" } }),
    Code.AlreadyExists,
    "m",
  ],
  ["Google, without a status", () => json(404, { error: { code: 404, message: "m" } }), Code.NotFound, "m"],
  [
    "Google, cancelled",
    () => json(499, { error: { code: 499, message: "m", status: "CANCELLED" } }),
    Code.Canceled,
    "m",
  ],
  ["the plain format", () => json(400, { code: "out_of_range", message: "m" }), Code.OutOfRange, "m"],
  ["the plain format, with a reason", () => json(412, { code: "stale", message: "m" }), Code.FailedPrecondition, "m"],
  [
    "problem details",
    () => text(404, `{"title":"t","status":404,"detail":"d","code":"not_found"}`, "application/problem+json"),
    Code.NotFound,
    "d",
  ],
  ["RFC 6749", () => json(400, { error: "invalid_grant", error_description: "d" }), Code.InvalidArgument, "d"],
  ["a code that there is not", () => json(503, { code: 99, message: "m" }), Code.Unavailable, "m"],
  ["JSON that is no error", () => json(429, [1]), Code.ResourceExhausted, "HTTP 429"],
  ["an object without a message", () => json(500, {}), Code.Internal, "HTTP 500"],
  ["text", () => text(403, " no entry\n"), Code.PermissionDenied, "no entry"],
  ["long text", () => text(403, "x".repeat(1000)), Code.PermissionDenied, "x".repeat(500)],
  ["HTML", () => text(502, "<h1>Bad</h1>", "text/html", "Bad Gateway"), Code.Unavailable, "HTTP 502 Bad Gateway"],
  ["broken JSON", () => text(504, "{", "application/json"), Code.DeadlineExceeded, "HTTP 504"],
  ["nothing", () => new Response(null, { status: 501 }), Code.Unimplemented, "HTTP 501"],
  ["a redirect", () => new Response(null, { status: 302, statusText: "Found" }), Code.Unknown, "HTTP 302 Found"],
])("an error of the format of %s", async (_name, respond, code, message) => {
  const error = await fail(respond);
  expect([error.code, error.rawMessage]).toEqual([code, message]);
});

test.each<[name: string, respond: () => Response, message: string]>([
  ["HTML", () => text(200, "<h1>", "text/html"), "can't read the response: it is text/html, not application/json"],
  ["broken JSON", () => text(200, "{", "application/json"), "can't read the response: it is not JSON"],
  ["of another type", () => json(200, { speed: [] }), "can't read the response: speed: must be one of "],
])("a successful response that is %s is an internal error", async (_name, respond, message) => {
  const error = await fail(respond);
  expect([error.code, error.rawMessage.slice(0, message.length)]).toEqual([Code.Internal, message]);
});

test("unknown keys and enum values of a newer server are ignored, unless they are to be rejected", async () => {
  const respond = () => json(200, { speed: "faster", added: 1 });
  expect(await callUnary(createCapturing(respond), ThingsService.method.getHeaders, {})).toMatchObject({ speed: 0 });
  const strict = createCapturing(respond, { jsonOptions: { ignoreUnknownFields: false } });
  const error = await errorOf(callUnary(strict, ThingsService.method.getHeaders, {}));
  expect(error.rawMessage).toBe("can't read the response: added: unknown; the fields are speed");
});

test("an error has the details whose types are known, and the response headers", async () => {
  const details = [
    { "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "r", metadata: { a: "b" } },
    { "@type": "type.googleapis.com/acme.Unknown", a: 1 },
    { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "1.5s" },
  ];
  const error = await fail(() =>
    Response.json({ code: 3, message: "m", details }, { status: 400, headers: { "x-request-id": "7" } }),
  );
  expect(error.findDetails(ErrorInfoSchema)).toMatchObject([{ reason: "r", metadata: { a: "b" } }]);
  expect(error.findDetails(RetryInfoSchema)).toMatchObject([{ retryDelay: { seconds: 1n, nanos: 500_000_000 } }]);
  expect(error.details).toHaveLength(2);
  expect(error.metadata.get("x-request-id")).toBe("7");
});

test("a reason that is no code is a google.rpc.ErrorInfo", async () => {
  const error = await fail(() => json(400, { code: "bad_speed", message: "m" }));
  expect(error.findDetails(ErrorInfoSchema)).toMatchObject([{ reason: "bad_speed" }]);
});

describe("a message with the error option is a detail", () => {
  test("with a reason", async () => {
    const respond = () => json(409, { code: "version_mismatch", message: "m", changeCount: 2 });
    const error = await errorOf(callUnary(createCapturing(respond), FlowsService.method.setFlows, {}));
    expect([error.code, error.rawMessage]).toEqual([Code.Aborted, "m"]);
    expect(error.findDetails(DeploymentErrorSchema)).toMatchObject([
      { code: DeploymentErrorReason.VERSION_MISMATCH, message: "m", changeCount: 2 },
    ]);
  });

  test("with headers", async () => {
    const body = { error: "temporarily_unavailable", error_description: "m" };
    const respond = () => Response.json(body, { status: 429, headers: { "retry-after": "30" } });
    const error = await errorOf(callUnary(createCapturing(respond), AuthService.method.issueToken, {}));
    expect([error.code, error.rawMessage]).toEqual([Code.ResourceExhausted, "m"]);
    expect(error.findDetails(TokenErrorSchema)).toMatchObject([
      { error: TokenErrorReason.TEMPORARILY_UNAVAILABLE, errorDescription: "m", retryAfter: 30 },
    ]);
  });

  test("without a body", async () => {
    const respond = () => new Response(null, { status: 401, headers: { "www-authenticate": "Bearer" } });
    const error = await errorOf(callUnary(createCapturing(respond), FlowsService.method.getFlows, {}));
    expect(error.code).toBe(Code.Unauthenticated);
    expect(error.findDetails(UnauthorizedSchema)).toMatchObject([{ challenge: "Bearer" }]);
  });
});

test.each(["plain", "problem", "status", "google"] as const)(
  "an error of a server with the format %s",
  async (errors) => {
    await using server = await serve({
      errors,
      routes: (router) => {
        router.rpc(ThingsService.method.getHeaders, () => {
          throw new ConnectError("m", Code.AlreadyExists, { "x-own": "1" }, [
            { desc: RetryInfoSchema, value: { retryDelay: { seconds: 2n } } },
            { desc: ErrorInfoSchema, value: { reason: "taken", domain: "things.example" } },
          ]);
        });
      },
    });
    const transport = createRestTransport({ baseUrl: `http://127.0.0.1:${server.port}` });
    const error = await errorOf(callUnary({ transport }, ThingsService.method.getHeaders, {}));
    expect([error.code, error.rawMessage, error.metadata.get("x-own")]).toEqual([Code.AlreadyExists, "m", "1"]);
    expect(error.findDetails(RetryInfoSchema)).toMatchObject([{ retryDelay: { seconds: 2n } }]);
    expect(error.findDetails(ErrorInfoSchema)).toMatchObject([{ reason: "taken", domain: "things.example" }]);
  },
);

test("all messages of google/rpc/error_details.proto arrive, without a registry", async () => {
  const { messages } = file_google_rpc_error_details;
  expect(messages.map(({ name }) => name)).toHaveLength(10);
  await using server = await serve({
    errors: "status",
    routes: (router) => {
      router.rpc(ThingsService.method.getHeaders, () => {
        throw new ConnectError(
          "m",
          Code.InvalidArgument,
          undefined,
          messages.map((desc) => ({ desc, value: {} })),
        );
      });
    },
  });
  const transport = createRestTransport({ baseUrl: `http://127.0.0.1:${server.port}` });
  const { details } = await errorOf(callUnary({ transport }, ThingsService.method.getHeaders, {}));
  expect(details.map((detail) => "type" in detail && detail.type)).toEqual(messages.map(({ typeName }) => typeName));
});

test("a server that can't be reached is unavailable", async () => {
  const { port } = await serve({ routes: () => {} }).then(async (server) => {
    await server[Symbol.asyncDispose]();
    return server;
  });
  const transport = createRestTransport({
    baseUrl: `http://127.0.0.1:${port}`,
    jsonOptions: { registry: createRegistry() },
  });
  expect((await errorOf(callUnary({ transport }, ThingsService.method.getHeaders, {}))).code).toBe(Code.Unavailable);
  const streamed = errorOf(callStream({ transport }, StreamsService.method.list, [{ shelf: "s" }]));
  expect((await streamed).code).toBe(Code.Unavailable);
});
