import { once } from "node:events";
import http2 from "node:http2";
import { type AddressInfo, connect } from "node:net";
import { type ConnectRouter, Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/flowgate/v1/auth_pb.ts";
import { Health, HealthCheckResponse_ServingStatus as Status } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { ServerReflection } from "@flowgate/gateway/gen/grpc/reflection/v1/reflection_pb.js";
import { openServer } from "../../../src/server/open-server.ts";
import type { ServerOptions } from "../../../src/server/server-options.ts";
import { createListener } from "../../../src/server/http/listener.ts";
import type { ListenerOptions } from "../../../src/server/http/listener-options.ts";
import { createLog } from "../../../src/telemetry/log.ts";
import { eventually } from "../../e2e/service.ts";
import { okResponse, serving } from "./exchange-handler.ts";
import { flag, frame, framesIn, get, openRaw2, post, preface, type, uint32, untilFrame } from "./frames.ts";
import { openRaw, type RawConnection } from "./raw-connection.ts";

const highestStreamId = 2 ** 31 - 1;

/** Responds with the number of previous requests, to the first one when it is released. */
async function listen(options: Partial<ListenerOptions> = {}) {
  const released = Promise.withResolvers<void>();
  let count = 0;
  const handler = serving((exchange) => {
    const number = count++;
    void (number === 0 ? released.promise : Promise.resolve()).then(() =>
      exchange.send(okResponse(`response ${number}`)),
    );
  });
  const server = createListener(handler, { closeGraceMs: 60_000, ...options });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    server,
    port: (server.address() as AddressInfo).port,
    served: () => count,
    release: released.resolve,
    close: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}

/** All frames of this type, once this many were received. */
async function untilFrames(raw: RawConnection, wanted: number, count: number) {
  const find = (received: string) => framesIn(received).filter((frame) => frame.type === wanted);
  return find(await raw.untilTrue((received) => find(received).length >= count));
}

const lastStreamId = ({ payload }: { payload: Buffer }): number => payload.readUInt32BE(0);
const acknowledgeSettings = frame(type.settings, flag.ack, 0);

describe("an HTTP/2 connection", () => {
  /** Opens a connection with a call in flight that is notified of the shutdown. */
  async function openNotified() {
    const listener = await listen();
    const raw = await openRaw2(listener.port);
    raw.write(Buffer.concat([acknowledgeSettings, get(1)]));
    await eventually(async () => expect(listener.served()).toBe(1));
    const closed = listener.close();
    const [goaway] = await untilFrames(raw, type.goaway, 1);
    const ping = await untilFrame(raw, type.ping, 0);
    return { listener, raw, closed, goaway, ping };
  }

  test("gets a shutdown notice, then the last stream id; a stream opened in between is served", async () => {
    const { listener, raw, closed, goaway, ping } = await openNotified();
    expect(goaway?.payload).toEqual(Buffer.concat([uint32(highestStreamId), uint32(0)]));
    raw.write(get(3));
    expect((await untilFrame(raw, type.data, 3)).payload.toString()).toBe("response 1");
    raw.write(frame(type.ping, flag.ack, 0, ping.payload));
    const [, second] = await untilFrames(raw, type.goaway, 2);
    expect(second?.payload).toEqual(Buffer.concat([uint32(3), uint32(0)]));
    // Not processed, as the second GOAWAY has reported.
    raw.write(get(5));
    listener.release();
    expect((await untilFrame(raw, type.data, 1)).payload.toString()).toBe("response 0");
    const frames = framesIn(await raw.closed());
    expect(frames.filter(({ streamId }) => streamId === 5)).toEqual([]);
    expect(listener.served()).toBe(2);
    await closed;
  });

  test("gets the last stream id also if its client does not acknowledge PING", async () => {
    const { listener, raw, closed } = await openNotified();
    const [, second] = await untilFrames(raw, type.goaway, 2);
    expect(second && lastStreamId(second)).toBe(1);
    listener.release();
    await closed;
  });

  test("that was opened when the server closes is served and notified", async () => {
    const listener = await listen();
    listener.release();
    using raw = await openRaw(listener.port);
    await eventually(async () => expect(await connectionsOf(listener.server)).toBe(1));
    const closed = listener.close();
    raw.write(Buffer.concat([preface, frame(type.settings, 0, 0), acknowledgeSettings, get(1)]));
    expect((await untilFrame(raw, type.data, 1)).payload.toString()).toBe("response 0");
    const { payload } = await untilFrame(raw, type.ping, 0);
    raw.write(frame(type.ping, flag.ack, 0, payload));
    const [first, second] = await untilFrames(raw, type.goaway, 2);
    expect([first, second].map((each) => each && lastStreamId(each))).toEqual([highestStreamId, 1]);
    await closed;
  });

  test("closes as soon as it has no calls", async () => {
    const listener = await listen();
    const session = http2.connect(`http://127.0.0.1:${listener.port}`);
    await once(session, "remoteSettings");
    const sessionClosed = once(session, "close");
    await listener.close();
    await expect(sessionClosed).resolves.toBeDefined();
  });

  test("accepts no further streams", async () => {
    const { listener, closed } = await openNotified();
    const [error] = (await once(connect(listener.port, "127.0.0.1"), "error").catch((error: unknown) => [error])) as [
      unknown,
    ];
    expect(error).toMatchObject({ code: "ECONNREFUSED" });
    listener.release();
    await closed;
  });
});

function connectionsOf(server: ReturnType<typeof createListener>): Promise<number> {
  return new Promise((resolve, reject) =>
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error))),
  );
}

describe("an HTTP/1 connection", () => {
  const request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

  test("closes with its next response while draining, and new connections are still accepted", async () => {
    const draining = new AbortController();
    const listener = await listen({ drainSignal: draining.signal });
    listener.release();
    using raw = await openRaw(listener.port);
    raw.write(request);
    expect(await raw.until(/response 0/)).toMatch(/^Connection: keep-alive/im);
    draining.abort();
    raw.write(request);
    expect(await raw.closed()).toMatch(/^Connection: close.*response 1$/ims);
    using next = await openRaw(listener.port);
    next.write(request);
    expect(await next.closed()).toMatch(/^Connection: close.*response 2$/ims);
    await listener.close();
  });

  test("is served if a request has begun to arrive, or arrives at once", async () => {
    const listener = await listen();
    listener.release();
    using begun = await openRaw(listener.port);
    begun.write(request);
    await begun.until(/response 0/);
    begun.write(request.slice(0, 20));
    using silent = await openRaw(listener.port);
    await eventually(async () => expect(await connectionsOf(listener.server)).toBe(2));
    // A response to a later request shows that the partial request was read.
    using after = await openRaw(listener.port);
    after.write(request);
    await after.until(/response 1/);
    const closed = listener.close();
    begun.write(request.slice(20));
    expect(await begun.closed()).toMatch(/response 0.*^Connection: close.*response 2$/ims);
    silent.write(request);
    expect(await silent.closed()).toMatch(/^Connection: close.*response 3$/ims);
    await closed;
  });

  test("that was idle is served if its next request arrives as the server closes", async () => {
    const listener = await listen();
    listener.release();
    using raw = await openRaw(listener.port);
    raw.write(request);
    await raw.until(/response 0/);
    // Received by now, but unread.
    raw.write(request);
    await listener.close();
    expect(await raw.closed()).toMatch(/response 0.*^Connection: close.*response 1$/ims);
  });

  test("that is idle closes, and later requests are not processed", async () => {
    const listener = await listen();
    listener.release();
    const socket = connect({ port: listener.port, host: "127.0.0.1", allowHalfOpen: true });
    socket.write(request);
    await once(socket, "data");
    const closed = listener.close();
    await once(socket, "end");
    socket.end(request);
    await closed;
    expect(listener.served()).toBe(1);
  });
});

async function open(routes: (router: ConnectRouter) => void, listener: Partial<ServerOptions["listener"]> = {}) {
  return openServer({
    host: "127.0.0.1",
    port: 0,
    log: createLog({ level: "silent" }),
    routes,
    gate: () => {},
    interceptors: [],
    ready: () => ({ ready: true }),
    limits: { bodyBytes: 1024 },
    listener: { closeGraceMs: 60_000, ...listener },
  });
}

const codeOf = (call: Promise<unknown>): Promise<Code | undefined> =>
  call.then(
    () => undefined,
    (error: unknown) => ConnectError.from(error).code,
  );

describe("a server", () => {
  test("that drains is not ready, but still serves calls", async () => {
    await using server = await open((router) => void router.service(AuthService, { getLogin: () => ({ type: "t" }) }));
    const before = createGrpcTransport({ baseUrl: server.url });
    await createClient(AuthService, before).getLogin({});
    server.drain();
    const reply = await fetch(`${server.url}/readyz`);
    expect([reply.status, reply.headers.get("connection"), await reply.json()]).toEqual([
      503,
      "close",
      { status: "draining" },
    ]);
    for (const transport of [before, createGrpcTransport({ baseUrl: server.url })]) {
      expect(await createClient(AuthService, transport).getLogin({})).toMatchObject({ type: "t" });
      expect(await createClient(Health, transport).check({})).toMatchObject({ status: Status.NOT_SERVING });
    }
  });

  test("ends a watch after both GOAWAY frames, with NOT_SERVING before", async () => {
    const server = await open((router) => void router.service(AuthService, {}));
    using raw = await openRaw2(server.port);
    raw.write(acknowledgeSettings);
    raw.write(post(1, [["content-type", "application/grpc"]], "/grpc.health.v1.Health/Watch"));
    raw.write(frame(type.data, flag.endStream, 1, Buffer.alloc(5)));
    await untilFrames(raw, type.data, 1);
    server.drain();
    await untilFrames(raw, type.data, 2);
    const closed = server[Symbol.asyncDispose]();
    const ping = await untilFrame(raw, type.ping, 0);
    raw.write(frame(type.ping, flag.ack, 0, ping.payload));
    const frames = framesIn(await raw.closed());
    const order = frames.flatMap((each) => {
      if (each.type === type.goaway) {
        return [`GOAWAY ${lastStreamId(each)}`];
      }
      return each.streamId === 1 && each.payload.length > 0
        ? [each.type === type.data ? `status ${each.payload.at(-1)}` : "header"]
        : [];
    });
    expect(order.slice(0, 6)).toEqual([
      "header",
      `status ${Status.SERVING}`,
      `status ${Status.NOT_SERVING}`,
      `GOAWAY ${highestStreamId}`,
      "GOAWAY 1",
      "header",
    ]);
    await closed;
  });

  test.each([
    ["gRPC", (baseUrl: string) => createGrpcTransport({ baseUrl })],
    ["Connect over HTTP/2", (baseUrl: string) => createConnectTransport({ baseUrl, httpVersion: "2" })],
  ])("ends idle streams with UNAVAILABLE: %s", async (_name, transport) => {
    const arrived = Promise.withResolvers<void>();
    async function* serverReflectionInfo() {
      arrived.resolve();
      await new Promise(() => {});
      yield {};
    }
    const server = await open((router) => void router.service(ServerReflection, { serverReflectionInfo }));
    const client = createClient(ServerReflection, transport(server.url));
    async function* nothing() {
      await new Promise(() => {});
      yield {};
    }
    const end = codeOf(client.serverReflectionInfo(nothing())[Symbol.asyncIterator]().next());
    await arrived.promise;
    await server[Symbol.asyncDispose]();
    expect(await end).toBe(Code.Unavailable);
  });

  test("closes the remaining connections after the grace period, and reports their number", async () => {
    const arrived = Promise.withResolvers<void>();
    const cut: number[] = [];
    const getLogin = async (): Promise<never> => {
      arrived.resolve();
      return new Promise(() => {});
    };
    const server = await open((router) => void router.service(AuthService, { getLogin }), {
      closeGraceMs: 50,
      onForcedClose: (connections) => void cut.push(connections),
    });
    const end = codeOf(createClient(AuthService, createGrpcTransport({ baseUrl: server.url })).getLogin({}));
    await arrived.promise;
    await server[Symbol.asyncDispose]();
    expect(cut).toEqual([1]);
    expect(await end).toBeDefined();
  });
});
