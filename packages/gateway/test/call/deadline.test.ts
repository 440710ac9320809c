import { Code, ConnectError, createContextValues, type HandlerContext } from "@connectrpc/connect";
import { setTimeout as wait } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "../gen/gatewaytest/v1/things_pb.ts";
import { readTimeout } from "../../src/call/deadline.ts";
import { RequestError } from "../../src/http/request-error.ts";
import { createGateway, type GatewayOptions, type GatewayRequest } from "../../src/index.ts";
import { serveStreams, type HttpVersion } from "../serve-streams.ts";
import { json, serve } from "../serve.ts";
import { createRequest } from "../service.ts";
import { vectors } from "../vectors.ts";

type Deadline = { header: string; value: string; expect: { ok: boolean; ms?: number } };

/** A service with this implementation of GET /things/headers. */
function things(call: (context: HandlerContext) => unknown, more: Partial<GatewayOptions> = {}): GatewayOptions {
  return {
    ...more,
    routes: (router) =>
      void router.rpc(ThingsService.method.getHeaders, async (_request, context) => {
        await call(context);
        return {};
      }),
  };
}

/** Resolves after all pending microtasks have run. */
const allTurns = () => new Promise((resolve) => setImmediate(resolve));

const request = (headers: Record<string, string>): GatewayRequest => ({
  httpMethod: "GET",
  httpVersionMajor: 1,
  target: "/things/headers",
  headers,
  url: () => "http://localhost/things/headers",
  contextValues: () => undefined,
  onAbort: () => {},
  hasBody: () => false,
  readBody: async () => new Uint8Array(),
  streamBody: async function* () {},
});

describe("deadline vectors", () => {
  test.each(vectors<Deadline>("deadline"))("%s", (_id, { header, value, expect: { ok, ms } }) => {
    const timeout = readTimeout({ [header]: value }, Infinity);
    // A RequestError is not a number.
    expect(Math.abs(Number(timeout) - (ms ?? Number.NaN)) < 1e-9).toBe(ok);
  });
});

describe("a deadline", () => {
  test.each<[Record<string, string>, number]>([
    [{ "connect-timeout-ms": "5000" }, 5_000],
    [{ "grpc-timeout": "4999999u" }, 5_000],
    [{ "x-server-timeout": "7.0001" }, 7_001],
  ])("of %j is a whole number of milliseconds to the implementation", async (headers, max) => {
    let timeoutMs: number | undefined;
    const gateway = createGateway(things((context) => (timeoutMs = context.timeoutMs())));
    await gateway.handle(request(headers));
    expect(timeoutMs).toBeLessThanOrEqual(max);
    expect(BigInt(timeoutMs ?? Number.NaN)).toBeGreaterThanOrEqual(0n);
  });

  test.each([
    [{}, undefined],
    [{ "grpc-timeout": "2M" }, 120_000],
    [{ "grpc-timeout": "99999999H" }, 99_999_999 * 3_600_000],
    [{ "grpc-timeout": "5m" }, 5],
    [{ "grpc-timeout": "1500u" }, 1.5],
    [{ "grpc-timeout": "2000000n" }, 2],
    [{ "x-server-timeout": "1.5" }, 1500],
    [{ "x-server-timeout": "0" }, 0],
    [{ "connect-timeout-ms": "9999999999" }, 9_999_999_999],
    [{ "grpc-timeout": "3S", "connect-timeout-ms": "2000", "x-server-timeout": "2.5" }, 2000],
    [{ "grpc-timeout": "1S", "connect-timeout-ms": "2000", "x-server-timeout": "2.5" }, 1000],
  ])("%j is %s ms", (headers, ms) => {
    expect(readTimeout(headers, Infinity)).toBe(ms);
  });

  test("is capped", () => {
    expect(readTimeout({ "grpc-timeout": "1H" }, 5000)).toBe(5000);
    expect(readTimeout({ "x-server-timeout": "9".repeat(400) }, 5000)).toBe(5000);
  });

  test.each([
    [{ "grpc-timeout": "123456789S" }],
    [{ "grpc-timeout": "" }],
    [{ "grpc-timeout": "1.5S" }],
    [{ "grpc-timeout": "-1S" }],
    [{ "grpc-timeout": "1s" }],
    [{ "grpc-timeout": "1S, 2S" }],
    [{ "grpc-timeout": "١S" }],
    [{ "connect-timeout-ms": "12345678901" }],
    [{ "connect-timeout-ms": "1.5" }],
    [{ "connect-timeout-ms": "0x10" }],
    [{ "x-server-timeout": "-1" }],
    [{ "x-server-timeout": "1e3" }],
    [{ "x-server-timeout": "NaN" }],
    [{ "x-server-timeout": "Infinity" }],
    [{ "x-server-timeout": ".5" }],
    [{ "x-server-timeout": "30s" }],
    [{ "grpc-timeout": "1S", "x-server-timeout": "" }],
  ])("%j is malformed", (headers) => {
    expect(readTimeout(headers, Infinity)).toBeInstanceOf(RequestError);
  });

  test("that is malformed is 400 after the gate, before the implementation runs", async () => {
    let calls = 0;
    await using server = await serve(things(() => calls++));
    const headers = { "grpc-timeout": "soon" };
    const reply = await server.send("GET", "/things/headers", { headers });
    expect([reply.status, JSON.parse(reply.body), calls]).toEqual([
      400,
      {
        code: "invalid_argument",
        message: "Grpc-Timeout: must be up to 8 digits and one of the units H, M, S, m, u, n",
      },
      0,
    ]);
    await using gated = await serve(
      things(() => calls++, {
        requestGate: () => {
          throw new ConnectError("no", Code.PermissionDenied);
        },
      }),
    );
    expect((await gated.send("GET", "/things/headers", { headers })).status).toBe(403);
    expect(calls).toBe(0);
  });

  test("is passed to the implementation and the gate, or undefined", async () => {
    const seen: (number | undefined)[] = [];
    const options = things((context) => seen.push(context.timeoutMs()), {
      requestGate: (context) => void seen.push(context.timeoutMs()),
    });
    await using server = await serve({ ...options, maxTimeoutMs: 60_000 });
    await server.send("GET", "/things/headers", { headers: { "grpc-timeout": "1H" } });
    await server.send("GET", "/things/headers");
    expect(seen).toEqual([expect.any(Number), expect.any(Number), undefined, undefined]);
    expect(seen[0]).toBeLessThanOrEqual(60_000);
    expect(seen[1]).toBeLessThanOrEqual(seen[0] ?? 0);
    expect(seen[1]).toBeGreaterThan(50_000);
  });

  test("that expires aborts the signal with DEADLINE_EXCEEDED, and is 504", async () => {
    const { promise: aborted, resolve } = Promise.withResolvers<unknown>();
    await using server = await serve(
      things(async ({ signal }) => {
        signal.addEventListener("abort", () => resolve(signal.reason));
        await wait(60_000, undefined, { signal });
      }),
    );
    const reply = await server.send("GET", "/things/headers", { headers: { "connect-timeout-ms": "500" } });
    expect([reply.status, JSON.parse(reply.body)]).toEqual([
      504,
      { code: "deadline_exceeded", message: "the operation timed out" },
    ]);
    expect(await aborted).toMatchObject({ code: Code.DeadlineExceeded });
  });

  test("does not wait for an implementation that ignores the signal and fails later", async () => {
    const { promise: late, reject } = Promise.withResolvers<never>();
    await using server = await serve(things(() => late));
    const reply = await server.send("GET", "/things/headers", { headers: { "x-server-timeout": "0.02" } });
    expect(reply.status).toBe(504);
    reject(new Error("too late to matter"));
    await late.catch(() => {});
    expect((await server.send("OPTIONS", "/things/headers")).status).toBe(204);
  });

  test("formats its error once, also if the implementation fails as a consequence", async () => {
    const reasons: string[] = [];
    const failed = Promise.withResolvers<void>();
    const gateway = createGateway(
      things(
        async ({ signal }) => {
          try {
            await wait(60_000, undefined, { signal });
          } finally {
            failed.resolve();
          }
        },
        {
          errors: ({ reason }) => {
            reasons.push(reason);
            return {};
          },
        },
      ),
    );
    expect((await gateway.handle(request({ "connect-timeout-ms": "200" }))).status).toBe(504);
    await failed.promise;
    await allTurns();
    expect(reasons).toEqual(["deadline_exceeded"]);
  });

  test("creates a timer only if it is set, and clears it with the call", async () => {
    const timers = () => process.getActiveResourcesInfo().filter((each) => each === "Timeout").length;
    const during: number[] = [];
    const gateway = createGateway(things(() => during.push(timers())));
    const before = timers();
    await gateway.handle(request({}));
    await gateway.handle(request({ "grpc-timeout": "1H" }));
    await gateway.handle(request({ "grpc-timeout": "soon" }));
    expect([...during, timers()]).toEqual([before, before + 1, before]);
  });
});

test("a maximum beyond that of timers is rejected at start-up", () => {
  expect(() => createGateway(things(() => {}, { maxTimeoutMs: 2 ** 31 }))).toThrow(
    "maxTimeoutMs must be a number from 1 to 2147483647, not 2147483648",
  );
});

describe("a call that is awaiting before the implementation runs", () => {
  type Waits = {
    /** The step that is awaiting. */
    readonly options: Omit<GatewayOptions, "routes">;
    readonly readBody: () => Promise<Uint8Array>;
    readonly reached: Promise<void>;
    readonly goOn: () => void;
  };

  const waitsFor = {
    "the gate": (wait) => ({ options: { requestGate: wait }, readBody: async () => Buffer.from("{}") }),
    "its body": (wait) => ({ options: {}, readBody: () => wait().then(() => Buffer.from("{}")) }),
    "an interceptor": (wait) => ({
      options: {
        interceptors: [
          (next) => async (message) => {
            await wait();
            return next(message);
          },
        ],
      },
      readBody: async () => Buffer.from("{}"),
    }),
  } satisfies Record<string, (wait: () => Promise<void>) => Pick<Waits, "options" | "readBody">>;

  function waitFor(name: keyof typeof waitsFor): Waits {
    const reached = Promise.withResolvers<void>();
    const opened = Promise.withResolvers<void>();
    const wait = (): Promise<void> => {
      reached.resolve();
      return opened.promise;
    };
    return { ...waitsFor[name](wait), reached: reached.promise, goOn: opened.resolve };
  }

  const paths = ["/things/echo", "/streams/search"];
  const rows = (["the gate", "its body", "an interceptor"] as const).flatMap((name) =>
    paths.map((path) => [name, path] as const),
  );

  function counted(calls: string[]): GatewayOptions["routes"] {
    const response = (_request: unknown, { method }: HandlerContext) => {
      calls.push(method.name);
      return {};
    };
    const stream = async function* (_request: unknown, { method }: HandlerContext) {
      calls.push(method.name);
      yield {};
    };
    return (router) => {
      router.rpc(ThingsService.method.echoThing, response).rpc(ThingsService.method.getHeaders, response);
      router.rpc(StreamsService.method.search, stream).rpc(StreamsService.method.list, stream);
    };
  }

  test.each(rows)("for %s does not call the implementation after the deadline: %s", async (name, path) => {
    const calls: string[] = [];
    const { options, readBody, goOn } = waitFor(name);
    const gateway = createGateway({ ...options, routes: counted(calls) });
    const posted = createRequest("POST", path, "{}");
    const headers = { ...posted.headers, "grpc-timeout": "5m" };
    expect((await gateway.handle({ ...posted, headers, readBody })).status).toBe(504);
    goOn();
    await allTurns();
    expect(calls).toEqual([]);
  });

  test.each(rows.filter(([name]) => name !== "an interceptor"))(
    "for %s does not call the implementation if the client has disconnected: %s",
    async (name, path) => {
      const calls: string[] = [];
      const { options, readBody, reached, goOn } = waitFor(name);
      const gateway = createGateway({ ...options, routes: counted(calls) });
      let disconnect = (): void => {};
      const response = gateway.handle({
        ...createRequest("POST", path, "{}"),
        readBody,
        onAbort: (callback) => {
          disconnect = callback;
        },
      });
      await reached;
      disconnect();
      goOn();
      expect([(await response).status, calls]).toEqual([499, []]);
    },
  );

  test("with a timeout of 0 does not call the implementation", async () => {
    let calls = 0;
    const gateway = createGateway(things(() => calls++));
    expect([(await gateway.handle(request({ "x-server-timeout": "0" }))).status, calls]).toEqual([504, 0]);
  });

  describe.each<[HttpVersion, Record<string, string>]>([
    ["HTTP/1.1", { connection: "keep-alive" }],
    ["HTTP/2", {}],
  ])("over %s", (version, alive) => {
    test.each(paths)("can still receive its body after the 504: %s", async (path) => {
      const calls: string[] = [];
      const ended = Promise.withResolvers<void>();
      await using server = await serveStreams(version, {
        routes: counted(calls),
        requestGate: (context) => void context.values,
        contextValues: ({ raw }) => {
          raw.once("end", ended.resolve);
          return createContextValues();
        },
      });
      const responded = Promise.withResolvers<void>();
      const response = await server.request("POST", path, {
        headers: { ...alive, ...json, "content-length": "2", "connect-timeout-ms": "20" },
        body: (async function* () {
          yield "{";
          await responded.promise;
          yield "}";
        })(),
      });
      expect(response.status).toBe(504);
      responded.resolve();
      await ended.promise;
      await allTurns();
      expect(calls).toEqual([]);
    });

    test.each(["/things/headers", "/streams/s/items"])(
      "is cancelled if the client disconnects during the gate: %s",
      async (path) => {
        const calls: string[] = [];
        const { options, reached, goOn } = waitFor("the gate");
        const disconnected = Promise.withResolvers<void>();
        await using server = await serveStreams(version, {
          routes: counted(calls),
          requestGate: (context) => {
            void context.values;
            return options.requestGate?.(context);
          },
          contextValues: ({ raw }) => {
            raw.once("close", disconnected.resolve);
            return createContextValues();
          },
        });
        const response = server.request("GET", path).catch(() => "no response");
        await reached;
        await server[Symbol.asyncDispose]();
        await disconnected.promise;
        goOn();
        await allTurns();
        expect([calls, await response]).toEqual([[], "no response"]);
      },
    );
  });
});

describe("a signal that is accessed late", () => {
  test("is aborted with the expired deadline", async () => {
    const { promise: late, resolve: wake } = Promise.withResolvers<void>();
    const { promise: asked, resolve: ask } = Promise.withResolvers<unknown[]>();
    const gateway = createGateway(
      things(async (context) => {
        await late;
        ask([context.signal.aborted, context.signal.reason]);
      }),
    );
    expect((await gateway.handle(request({ "grpc-timeout": "200m" }))).status).toBe(504);
    wake();
    expect(await asked).toMatchObject([true, { code: Code.DeadlineExceeded }]);
  });

  test("is aborted with the error of a failed call, and after a finished one", async () => {
    const contexts: HandlerContext[] = [];
    const error = new ConnectError("gone", Code.NotFound);
    const gateway = createGateway(
      things((context) => {
        contexts.push(context);
        if (contexts.length === 1) {
          throw error;
        }
      }),
    );
    await gateway.handle(request({}));
    await gateway.handle(request({}));
    expect(contexts.map(({ signal }) => [signal.aborted, signal.reason as unknown])).toEqual([
      [true, error],
      [true, expect.objectContaining({ name: "AbortError" })],
    ]);
  });

  test.each<[HttpVersion]>([["HTTP/1.1"], ["HTTP/2"]])(
    "is aborted if the client has disconnected: %s",
    async (version) => {
      const started = Promise.withResolvers<void>();
      const disconnected = Promise.withResolvers<void>();
      const aborted = Promise.withResolvers<boolean>();
      await using server = await serveStreams(version, {
        ...things(async (context) => {
          void context.values;
          started.resolve();
          await disconnected.promise;
          aborted.resolve(context.signal.aborted);
        }),
        contextValues: ({ raw }) => {
          raw.once("close", disconnected.resolve);
          return createContextValues();
        },
      });
      const response = server.request("GET", "/things/headers").catch(() => "no response");
      await started.promise;
      await server[Symbol.asyncDispose]();
      expect([await aborted.promise, await response]).toEqual([true, "no response"]);
    },
  );
});
