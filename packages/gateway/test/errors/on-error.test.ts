import { DurationSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, type HandlerContext, type Transport } from "@connectrpc/connect";
import { fastify } from "fastify";
import { afterEach, describe, expect, test, vi } from "vitest";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { createFrameworkErrorHandler } from "../../src/adapters/fastify/index.ts";
import { createGateway, type GatewayOptions } from "../../src/index.ts";
import { createRestTransport } from "../../src/client/index.ts";
import { StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "../gen/gatewaytest/v1/things_pb.ts";
import { http1Servers, openHttp2, type RpcOptions } from "../adapters/rpc-servers.ts";
import { createRequest } from "../service.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

const bug = new TypeError("a bug with a secret");

/** Fails with this error: unary, and after the first message of a stream. */
function failing(error: unknown): GatewayOptions["routes"] {
  return (router) =>
    router
      .service(ThingsService, {
        openThing() {
          throw error;
        },
      })
      .service(StreamsService, {
        async *list() {
          yield { text: "a" };
          throw error;
        },
        async *download() {
          yield { data: new Uint8Array(1) };
          throw error;
        },
      });
}

/** A client of each protocol, by the name that it has in the context of a call. */
async function openAll(options: RpcOptions): Promise<AsyncDisposable & { transports: [string, Transport][] }> {
  const http2 = await openHttp2(options);
  const [[, openHttp1]] = http1Servers as unknown as [(typeof http1Servers)[number]];
  const http1 = await openHttp1(options);
  const names: Record<string, string> = { Connect: "connect", gRPC: "grpc", "gRPC-Web": "grpc-web" };
  const rpc = http2.transports.flatMap(([name, transport]): [string, Transport][] =>
    names[name] === undefined ? [] : [[names[name], transport]],
  );
  return {
    transports: [...rpc, ["http", createRestTransport({ baseUrl: http1.baseUrl })]],
    async [Symbol.asyncDispose]() {
      await http1[Symbol.asyncDispose]();
      await http2[Symbol.asyncDispose]();
    },
  };
}

const openThing = () => createRequest("PUT", "/things/open", '{"id":"x"}');

/** What a call fails with. */
async function failureOf(call: () => unknown): Promise<ConnectError> {
  try {
    await call();
  } catch (error) {
    return ConnectError.from(error);
  }
  throw new Error("the call has succeeded");
}

async function readAll(messages: AsyncIterable<unknown>): Promise<void> {
  for await (const _message of messages) {
    // Until it fails.
  }
}

describe("an unexpected error", () => {
  test("is reported once for each call, in every protocol, while the call is not ended", async () => {
    const reported: unknown[] = [];
    const onError = (error: unknown, context?: HandlerContext): void => {
      reported.push([error, context?.protocolName, context?.method.name, context?.signal.aborted]);
    };
    await using server = await openAll({ routes: failing(bug), onError });
    expect(server.transports).toHaveLength(4);
    for (const [protocol, transport] of server.transports) {
      const things = createClient(ThingsService, transport);
      const streams = createClient(StreamsService, transport);
      for (const [method, call] of [
        ["OpenThing", () => things.openThing({ id: "x" })],
        ["List", () => readAll(streams.list({ shelf: "s" }))],
        ["Download", () => readAll(streams.download({ name: "n" }))],
      ] as const) {
        const { rawMessage } = await failureOf(call);
        expect(rawMessage).not.toContain("secret");
        expect(reported.splice(0)).toEqual([[bug, protocol, method, false]]);
      }
    }
  });

  test("is written to the console by default, with its RPC", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const response = await createGateway({ routes: failing(bug) }).handle(openThing());
    expect(response.status).toBe(500);
    expect(log).toHaveBeenCalledExactlyOnceWith("unexpected error in rpc gatewaytest.v1.ThingsService.OpenThing:", bug);
  });

  test.each([
    ["a ConnectError", new ConnectError("no", Code.NotFound), {}],
    ["one that mapError maps", bug, { mapError: () => new ConnectError("no", Code.NotFound) }],
  ] satisfies [string, unknown, Partial<GatewayOptions>][])("is not %s", async (_name, error, more) => {
    const onError = vi.fn<() => void>();
    const gateway = createGateway({ routes: failing(error), onError, ...more });
    expect((await gateway.handle(openThing())).status).toBe(404);
    expect(onError).not.toHaveBeenCalled();
  });

  test("is not the AbortError of a call whose client has disconnected", async () => {
    const onError = vi.fn<() => void>();
    let disconnect = (): void => {};
    const gateway = createGateway({
      onError,
      routes: (router) =>
        router.service(ThingsService, {
          async openThing(_request, { signal }) {
            const aborted = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
            disconnect();
            await aborted;
            throw signal.reason;
          },
        }),
    });
    await gateway.handle({
      ...openThing(),
      onAbort(callback) {
        disconnect = callback;
      },
    });
    expect(onError).not.toHaveBeenCalled();
  });
});

describe("what a function of the options throws", () => {
  // As an async function, of which JavaScript has no type.
  const rejectBug: () => void = (): unknown => Promise.reject(bug);
  const noError = new ConnectError("no", Code.NotFound);
  const throwBug = (): never => {
    throw bug;
  };

  test.each([
    ["requestGate", { requestGate: throwBug }, 500, bug],
    [
      "errors",
      { errors: throwBug },
      500,
      withCause("the function of the option errors must return {status?, headers?, body?}"),
    ],
    [
      "cors.origins",
      { cors: { origins: throwBug } },
      404,
      withCause("the function of the option cors.origins must not throw"),
    ],
    ["mapError", { mapError: throwBug }, 500, withCause("the option mapError must not throw")],
    [
      "mapError, which throws a ConnectError",
      {
        mapError() {
          throw noError;
        },
      },
      500,
      expect.objectContaining({ message: "the option mapError must not throw", cause: noError }),
    ],
  ] satisfies [string, Partial<GatewayOptions>, number, unknown][])(
    "is reported, and the call has a response: %s",
    async (_name, more, status, error) => {
      const onError = vi.fn<(error: unknown) => void>();
      const gateway = createGateway({ routes: failing(noError), onError, ...more });
      const request = openThing();
      const headers = { ...request.headers, origin: "https://a.example" };
      const response = await gateway.handle(Object.assign(request, { headers }));
      expect(response.status).toBe(status);
      expect(onError.mock.calls.map(([reported]) => reported)).toEqual([error]);
    },
  );

  test("is reported together with the error that mapError was called for", async () => {
    const onError = vi.fn<(error: unknown) => void>();
    await createGateway({ routes: failing(noError), onError, mapError: throwBug }).handle(openThing());
    expect(onError.mock.calls[0]?.[0]).toMatchObject({ errors: [bug, noError] });
  });

  test.each<[how: string, onError: () => void]>([
    ["throws", throwBug],
    ["rejects", rejectBug],
  ])(
    "an onError that %s does not end the process, and both errors are written to the console",
    async (_how, onError) => {
      const log = vi.spyOn(console, "error").mockImplementation(() => {});
      const own = new RangeError("the error of the call");
      const gateway = createGateway({ routes: failing(own), onError });
      expect((await gateway.handle(openThing())).status).toBe(500);
      await vi.waitFor(() => expect(log).toHaveBeenCalledTimes(2));
      expect(log.mock.calls).toEqual([
        ["unexpected error:", withCause("the option onError must not throw")],
        ["unexpected error in rpc gatewaytest.v1.ThingsService.OpenThing:", own],
      ]);
    },
  );

  function withCause(message: string): unknown {
    return expect.objectContaining({ message, cause: bug });
  }
});

test("a detail that can't be encoded is reported, and the error is sent without it, in every protocol", async () => {
  const error = new ConnectError("no", Code.NotFound, undefined, [
    { desc: DurationSchema, value: { nanos: 1.5 } },
    { desc: ErrorInfoSchema, value: { reason: "valid" } },
  ]);
  const onError = vi.fn<(error: unknown) => void>();
  await using server = await openAll({ routes: failing(error), onError });
  for (const [, transport] of server.transports) {
    const failure = await failureOf(() => createClient(ThingsService, transport).openThing({ id: "x" }));
    expect([failure.rawMessage, failure.findDetails(ErrorInfoSchema).map(({ reason }) => reason)]).toEqual([
      "no",
      ["valid"],
    ]);
  }
  expect(onError.mock.calls.map(([reported]) => reported)).toEqual(
    server.transports.map(() =>
      expect.objectContaining({ message: "the detail google.protobuf.Duration of an error can't be encoded" }),
    ),
  );
});

test("errors of Fastify itself are reported if they are its own", async () => {
  const onError = vi.fn<(error: unknown) => void>();
  const handle = createFrameworkErrorHandler({ onError });
  const own = Object.assign(new Error("constraint failed"), { statusCode: 500 });
  const app = fastify({
    frameworkErrors(_error, request, reply) {
      handle(own as never, request, reply);
    },
  });
  expect((await app.inject("/%zz")).statusCode).toBe(500);
  expect(onError.mock.calls).toEqual([[own, undefined]]);
});
