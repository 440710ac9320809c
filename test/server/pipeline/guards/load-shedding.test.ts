import { fork } from "node:child_process";
import { once } from "node:events";
import http from "node:http";
import http2 from "node:http2";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  createClient,
  type Interceptor,
  type Transport,
} from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../../gen/flowgate/v1/auth_pb.ts";
import { ErrorInfoSchema, RetryInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";
import { Health } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { ServerReflection } from "@flowgate/gateway/gen/grpc/reflection/v1/reflection_pb.js";
import { retryInterceptor, type RetryOptions } from "../../../../packages/client/src/index.ts";
import { openServer } from "../../../../src/server/open-server.ts";
import { createDelayMeter, type SheddingOptions } from "../../../../src/server/pipeline/guards/load-shedding.ts";
import type { ListenerLimits } from "../../../../src/server/http/listener-options.ts";
import { createLog } from "../../../../src/telemetry/log.ts";
import { silentObserver } from "../../../../src/telemetry/observer.ts";
import { eventually } from "../../../e2e/service.ts";
import { json, send } from "../../../e2e/rest.ts";
import { flag, frame, headerBlock, openRaw2, setting, type, uint32, untilFrame } from "../../http/frames.ts";
import { openRaw } from "../../http/raw-connection.ts";

/** `begun(n)` resolves once n calls have passed the gate. */
async function open(
  inFlight: number,
  more: Partial<SheddingOptions & ListenerLimits> & { trustedProxies?: readonly string[] } = {},
) {
  const { trustedProxies = [], ...shedding } = more;
  const shed: string[] = [];
  const lines: Record<string, unknown>[] = [];
  const calls = { admitted: 0 };
  let changed = Promise.withResolvers<void>();
  const slow = Promise.withResolvers<void>();
  const server = await openServer({
    host: "127.0.0.1",
    port: 0,
    log: createLog({ level: "warn", destination: { write: (line) => void lines.push(JSON.parse(line)) } }),
    routes: (router: ConnectRouter) =>
      void router.service(AuthService, {
        getLogin: () => ({ type: "none" }),
        async issueToken() {
          await slow.promise;
          return { accessToken: "a" };
        },
        revokeToken: () => ({}),
      }),
    gate: () => {
      calls.admitted += 1;
      changed.resolve();
      changed = Promise.withResolvers();
    },
    interceptors: [],
    ready: () => ({ ready: true }),
    reflection: true,
    trustedProxies,
    limits: { bodyBytes: 64 * 1024 * 1024, inFlight, ...shedding },
    observer: { ...silentObserver, callShed: (reason) => void shed.push(reason) },
  });
  return Object.assign(server, {
    shed,
    lines,
    finish: () => slow.resolve(),
    async begun(count: number) {
      while (calls.admitted < count) {
        await changed.promise;
      }
    },
  });
}

const overloaded = {
  code: "overloaded",
  message: expect.stringMatching(
    /^the service is overloaded \(limits\.inFlight is reached\): retry in [1-3] s, or make fewer concurrent calls$/,
  ),
};
const head = (path: string, length: number) =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
const login = (server: { url: string }) => send(server.url, "GET", "/auth/login");

const transports: [string, (baseUrl: string, interceptors?: Interceptor[]) => Transport][] = [
  ["Connect", (baseUrl, interceptors = []) => createConnectTransport({ baseUrl, httpVersion: "1.1", interceptors })],
  [
    "Connect over HTTP/2",
    (baseUrl, interceptors = []) => createConnectTransport({ baseUrl, httpVersion: "2", interceptors }),
  ],
  ["gRPC", (baseUrl, interceptors = []) => createGrpcTransport({ baseUrl, interceptors })],
  ["gRPC-Web", (baseUrl, interceptors = []) => createGrpcWebTransport({ baseUrl, httpVersion: "1.1", interceptors })],
];

async function failureOf(call: Promise<unknown>): Promise<ConnectError> {
  return ConnectError.from(
    await call.then(
      () => expect.unreachable(),
      (error: unknown) => error,
    ),
  );
}

describe("calls up to limits.inFlight", () => {
  test("are served; one more is rejected until one of them ends", async () => {
    await using server = await open(2);
    using one = await openRaw(server.port);
    one.write(`${head("/auth/token", 2)}{`);
    const deployment = send(server.url, "POST", "/auth/token", { headers: json, body: "{}" });
    await server.begun(2);

    const reply = await login(server);
    expect([reply.status, reply.json()]).toEqual([503, overloaded]);
    expect(reply.headers["retry-after"]).toMatch(/^[1-3]$/);
    expect((await send(server.url, "GET", "/nowhere")).status).toBe(503);
    expect(server.shed).toEqual(["in_flight", "in_flight"]);
    expect(server.lines).toMatchObject([{ level: "warn", reason: "in_flight" }]);

    one.write("}");
    server.finish();
    expect([(await deployment).status, await one.until(/"a"/)]).toEqual([200, expect.stringContaining(" 200 ")]);
    await eventually(async () => expect((await login(server)).status).toBe(200));
  });

  test("are unlimited if it is 0: the same call is served", async () => {
    await using server = await open(0);
    using one = await openRaw(server.port);
    one.write(`${head("/auth/token", 2)}{`);
    using two = await openRaw(server.port);
    two.write(`${head("/auth/token", 2)}{`);
    await server.begun(2);
    expect((await login(server)).status).toBe(200);
    expect(server.shed).toEqual([]);
  });

  test.each([
    ["GET", "/healthz"],
    ["GET", "/readyz"],
    ["POST", "/auth/revoke"],
    ["POST", "/flowgate.v1.AuthService/RevokeToken"],
    ["POST", "/grpc.health.v1.Health/Check"],
  ])("do not block %s %s", async (method, path) => {
    await using server = await open(1);
    using busy = await openRaw(server.port);
    busy.write(`${head("/auth/token", 2)}{`);
    await server.begun(1);
    const sending = method === "GET" ? {} : { headers: json, body: '{"token":"x"}' };
    // Over RPC an unknown field is ignored: Check has no token.
    const body = path.endsWith("Check") ? { headers: json, body: "{}" } : sending;
    expect((await send(server.url, method, path, body)).status).toBe(200);
    expect((await login(server)).status).toBe(503);
  });

  test("are released when their clients disconnect, over either HTTP version", async () => {
    await using server = await open(2);
    const lost = await openRaw(server.port);
    // The response to the second one waits for that to the first.
    lost.write(`${head("/auth/token", 2)}{}${head("/auth/token", 2)}{}`);
    await server.begun(1);
    lost[Symbol.dispose]();
    await eventually(async () => expect((await login(server)).status).toBe(200));

    const session = http2.connect(server.url);
    const streams = [1, 2].map(() => session.request({ ":method": "POST", ":path": "/auth/token", ...json }));
    for (const stream of streams) {
      stream.on("error", () => {});
      stream.write("{");
    }
    await server.begun(4);
    expect((await login(server)).status).toBe(503);
    session.destroy();
    await eventually(async () => expect((await login(server)).status).toBe(200));
    // No call was released twice.
    using three = await openRaw(server.port);
    three.write(`${head("/auth/token", 2)}{`);
    using four = await openRaw(server.port);
    four.write(`${head("/auth/token", 2)}{`);
    await eventually(async () => expect((await login(server)).status).toBe(503));
  });

  test("are counted separately from streams, which have the same limit", async () => {
    await using server = await open(1);
    const baseUrl = server.url;
    const watching = new AbortController();
    const reflect = async function* () {
      yield { messageRequest: { case: "listServices", value: "" } } as const;
      await once(watching.signal, "abort");
    };
    const health = createClient(Health, createGrpcTransport({ baseUrl }));
    const reflection = createClient(ServerReflection, createGrpcTransport({ baseUrl }));
    const options = { signal: watching.signal };
    const streams = [
      health.watch({}, options)[Symbol.asyncIterator](),
      health.watch({}, options)[Symbol.asyncIterator](),
      reflection.serverReflectionInfo(reflect(), options)[Symbol.asyncIterator](),
    ];
    for (const stream of streams) {
      expect((await stream.next()).done).toBe(false);
    }
    expect((await login(server)).status).toBe(200);
    const failure = await failureOf(reflection.serverReflectionInfo(reflect(), options)[Symbol.asyncIterator]().next());
    expect(failure.code).toBe(Code.Unavailable);
    watching.abort();
    await Promise.allSettled(streams.map((stream) => stream.next()));
  });

  test.each(transports)("cause UNAVAILABLE over %s, with the time to retry", async (name, transport) => {
    await using server = await open(1);
    using busy = await openRaw(server.port);
    busy.write(`${head("/auth/token", 2)}{`);
    await server.begun(1);
    const failure = await failureOf(createClient(AuthService, transport(server.url)).getLogin({}));
    expect([failure.code, failure.rawMessage]).toEqual([Code.Unavailable, overloaded.message]);
    expect(failure.findDetails(ErrorInfoSchema)).toMatchObject([{ reason: "overloaded" }]);
    const seconds = Number(failure.metadata.get("retry-after"));
    expect(failure.findDetails(RetryInfoSchema)).toMatchObject([{ retryDelay: { seconds: BigInt(seconds) } }]);
    expect(failure.metadata.get("grpc-retry-pushback-ms")).toBe(name.startsWith("gRPC") ? `${seconds}000` : null);
  });

  test("only delay the calls of a retrying client, including writes", async () => {
    await using server = await open(12);
    const session = http2.connect(server.url);
    for (let place = 0; place < 12; place += 1) {
      session.request({ ":method": "POST", ":path": "/auth/token", ...json }).on("error", () => {});
    }
    await server.begun(12);
    const calls = (options: RetryOptions): Promise<unknown>[] =>
      transports.flatMap(([, transport]) => {
        const { issueToken } = createClient(AuthService, transport(server.url, [retryInterceptor(options)]));
        // Each gets a Retry-After of one, two or three seconds.
        return [1, 2, 3].map(() => issueToken({}));
      });

    const impatient = await Promise.all(calls({ maxDelayMs: 0 }).map(failureOf));
    expect(new Set(impatient.map(({ code }) => code))).toEqual(new Set([Code.Unavailable]));
    expect(server.shed).toHaveLength(12);

    const patient = calls({});
    await eventually(async () => expect(server.shed.length).toBeGreaterThanOrEqual(24));
    session.destroy();
    server.finish();
    expect(await Promise.all(patient)).toMatchObject(Array.from({ length: 12 }, () => ({ accessToken: "a" })));
  });

  test.each([
    ["application/connect+json; charset=utf-8", "application/connect+json"],
    ["application/connect+x,text/html", "application/json"],
    ["application/grpc,text/html", "application/grpc"],
  ])("reject %s as %s", async (sent, answered) => {
    await using server = await open(1);
    using busy = await openRaw(server.port);
    busy.write(`${head("/auth/token", 2)}{`);
    await server.begun(1);
    const reply = await send(server.url, "POST", "/flowgate.v1.AuthService/GetLogin", {
      headers: { "content-type": sent },
    });
    expect(reply.headers["content-type"]).toBe(answered);
  });

  test("cause a rejection before the body is read or 100 Continue is sent", async () => {
    await using server = await open(1);
    using busy = await openRaw(server.port);
    busy.write(`${head("/auth/token", 2)}{`);
    await server.begun(1);
    for (const header of ["Content-Length: 20000000", "Transfer-Encoding: chunked"]) {
      using raw = await openRaw(server.port);
      raw.write(`POST /flows HTTP/1.1\r\nHost: a\r\n${header}\r\nExpect: 100-continue\r\n\r\n`);
      expect(await raw.closed()).toMatch(/^HTTP\/1.1 503 .*connection: close/is);
    }
    using kept = await openRaw(server.port);
    kept.write(`${head("/auth/token", 2)}{}GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n`);
    expect(await kept.until(/"ok"/)).toMatch(/^HTTP\/1.1 503 .*HTTP\/1.1 200 /s);
  });
});

describe("responses that the client's flow control blocks", () => {
  const loginOf = (streamId: number) =>
    frame(type.headers, flag.endStream | flag.endHeaders, streamId, headerBlock("GET", [], "/auth/login"));

  test("without a token are reset, which makes room for other calls, and sooner while calls are rejected", async () => {
    // If the machine stops this process for as long, the response of the other server is reset too.
    const limits = { anonymousStallTimeoutMs: 10_000 };
    await using full = await open(2, limits);
    await using other = await open(3, limits);
    using holder = await openRaw2(full.port, [setting(4, 0)]);
    using reader = await openRaw2(other.port, [setting(4, 0)]);
    for (const raw of [holder, reader]) {
      raw.write(Buffer.concat([loginOf(1), loginOf(3)]));
      await untilFrame(raw, type.headers, 3);
    }
    expect(await login(full)).toMatchObject({ status: 503 });
    expect(await login(other)).toMatchObject({ status: 200 });
    await Promise.all([untilFrame(holder, type.rstStream, 1), untilFrame(holder, type.rstStream, 3)]);
    expect(await login(full)).toMatchObject({ status: 200 });
    reader.write(Buffer.concat([1, 3].map((streamId) => frame(type.windowUpdate, 0, streamId, uint32(1_000)))));
    await Promise.all([untilFrame(reader, type.data, 1), untilFrame(reader, type.data, 3)]);
  });
});

describe("calls of one client up to limits.inFlightPerSource", () => {
  /** The response to a client of this address. */
  async function loginFrom(localAddress: string, { port }: { port: number }, headers = {}): Promise<Answered> {
    const asked = http.get({ port, host: "127.0.0.1", path: "/auth/login", localAddress, headers, agent: false });
    const [response] = (await once(asked, "response")) as [http.IncomingMessage];
    return { status: response.statusCode, body: await text(response) };
  }

  /** Calls whose bodies do not end, up to the limit. */
  async function fill(server: Awaited<ReturnType<typeof open>>, count: number, headers = {}): Promise<Disposable> {
    const session = http2.connect(server.url);
    for (let call = 0; call < count; call += 1) {
      session.request({ ":method": "POST", ":path": "/auth/token", ...json, ...headers }).on("error", () => {});
    }
    await server.begun(count);
    return { [Symbol.dispose]: () => session.destroy() };
  }

  test("are served; calls of other clients are not blocked", async () => {
    await using server = await open(4, { inFlightPerSource: 2 });
    using calls = await fill(server, 2);
    const refused = await loginFrom("127.0.0.1", server);
    expect(refused.status).toBe(503);
    expect(refused.body).toContain("(limits.inFlightPerSource is reached for one client)");
    expect((await loginFrom("127.0.0.2", server)).status).toBe(200);
    expect(server.shed).toEqual(["in_flight_per_source"]);
    calls[Symbol.dispose]();
    await eventually(async () => expect((await loginFrom("127.0.0.1", server)).status).toBe(200));
  });

  test("without the limit, one client can block all others", async () => {
    await using server = await open(4, { inFlightPerSource: 0 });
    using _calls = await fill(server, 4);
    expect((await loginFrom("127.0.0.2", server)).status).toBe(503);
    expect(server.shed).toEqual(["in_flight"]);
  });

  test("are counted behind a trusted proxy for the forwarded client only", async () => {
    await using server = await open(9, { inFlightPerSource: 2, trustedProxies: ["127.0.0.1"] });
    const [one, other] = ["192.0.2.1", "192.0.2.2"].map((address) => ({ "x-forwarded-for": address }));
    using _calls = await fill(server, 2, one);
    expect((await loginFrom("127.0.0.1", server, one)).status).toBe(503);
    expect((await loginFrom("127.0.0.1", server, other)).status).toBe(200);
    using _own = await fill(server, 5);
    expect((await loginFrom("127.0.0.1", server)).status).toBe(200);
  });
});

describe("another spelling of a path", () => {
  const grpcHead = { ":method": "POST", "content-type": "application/grpc", te: "trailers" };

  test.each([
    ["/grpc.health.v1.%48ealth/Watch", true],
    ["/grpc.health.v1.Health/Watch#", true],
    ["/grpc.reflection.v1.ServerReflection/%53erverReflectionInfo", false],
    ["/grpc.reflection.v1.ServerReflection/ServerReflectionInfo#", false],
  ])("counts as a call of its route: %s", async (path, endStream) => {
    await using server = await open(1);
    const session = http2.connect(server.url);
    const stream = session.request({ ...grpcHead, ":path": path });
    stream.on("error", () => {});
    stream.write(Buffer.alloc(5));
    if (endStream) {
      stream.end();
    }
    const [head] = (await once(stream, "response")) as [http2.IncomingHttpHeaders];
    expect([head[":status"], head["grpc-status"]]).toEqual([200, undefined]);
    expect((await login(server)).status).toBe(200);
    session.destroy();
  });
});

type Answered = { readonly status: number | undefined; readonly body: string };

type Said = { readonly url?: string; readonly turn?: true; readonly shed?: string };

/** A server in its own process, whose event loop the test can block. */
async function startBusy(eventLoopDelayMs: number) {
  const child = fork(fileURLToPath(new URL("../../../fixtures/server/busy.ts", import.meta.url)), [
    String(eventLoopDelayMs),
  ]);
  const exited = once(child, "exit");
  const shed: string[] = [];
  child.on("message", (said: Said) => void (said.shed === undefined || shed.push(said.shed)));
  const [{ url = "" }] = (await once(child, "message")) as [Said];
  return {
    url,
    shed,
    /** Resolves when this many turns of its event loop were long. */
    async keepBusy(turns: number) {
      child.send("busy");
      for (let count = 0; count < turns;) {
        const [said] = (await once(child, "message")) as [Said];
        count += said.turn === true ? 1 : 0;
      }
    },
    relax: () => void child.send("idle"),
    async [Symbol.asyncDispose]() {
      child.send("stop");
      await exited;
    },
  };
}

describe("an overloaded event loop", () => {
  test("makes calls be rejected until it recovers, apart from exempt ones", async () => {
    await using server = await startBusy(100);
    expect((await login(server)).status).toBe(200);
    await server.keepBusy(4);
    const reply = await login(server);
    expect([reply.status, reply.json()]).toEqual([
      503,
      {
        code: "overloaded",
        message: expect.stringContaining("(the event loop delay exceeds limits.eventLoopDelayMs)"),
      },
    ]);
    expect((await send(server.url, "GET", "/healthz")).status).toBe(200);
    const revoke = { headers: json, body: '{"token":"x"}' };
    expect((await send(server.url, "POST", "/auth/revoke", revoke)).status).toBe(200);
    server.relax();
    await eventually(async () => expect((await login(server)).status).toBe(200));
    expect(new Set(server.shed)).toEqual(new Set(["event_loop"]));
  });

  test("still serves a call with an identity", async () => {
    await using server = await startBusy(100);
    await server.keepBusy(4);
    const loginAs = (token: string) =>
      send(server.url, "GET", "/auth/login", { headers: { authorization: `Bearer ${token}` } });
    expect([(await loginAs("unknown")).status, (await loginAs("known")).status]).toEqual([503, 200]);
    expect(server.shed).toEqual(["event_loop"]);
  });

  test("is ignored if the limit is 0: the same call is served", async () => {
    await using server = await startBusy(0);
    await server.keepBusy(4);
    expect((await login(server)).status).toBe(200);
    expect(server.shed).toEqual([]);
  });
});

test.each([
  ["an idle loop", [0, 0, -1, 0], [false, false, false, false]],
  ["a machine that was suspended for an hour", [0, 3_600_000, 0, 0], [false, false, false, false]],
  ["a large deployment now and then", [400, 0, 0, 0, 0, 400, 0], Array<boolean>(7).fill(false)],
  ["long delays in a row", [400, 400, 400], [false, true, true]],
  ["delays just above", [120, 120, 120, 120, 120], [false, false, false, true, true]],
  ["delays just below", Array<number>(50).fill(99), Array<boolean>(50).fill(false)],
  ["delays that end", [400, 400, 0, 0, 0], [false, true, true, false, false]],
  [
    "delays that fall to between half the limit and the limit",
    [400, 400, ...Array<number>(30).fill(60)],
    [false, ...Array<boolean>(31).fill(true)],
  ],
])("a limit of 100 ms: %s", (_what, delays, expected) => {
  const isTooLate = createDelayMeter(100);
  expect(delays.map((delay) => isTooLate(delay))).toEqual(expected);
});
