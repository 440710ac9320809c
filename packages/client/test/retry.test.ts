import { once } from "node:events";
import http2 from "node:http2";
import { createServer, type AddressInfo } from "node:net";
import { Code, ConnectError, createClient, type Client } from "@connectrpc/connect";
import { connectNodeAdapter, createGrpcTransport } from "@connectrpc/connect-node";
import { expect, test } from "vitest";
import { FlowsService, retryInterceptor, SettingsService, type RetryOptions } from "../src/index.ts";

const quick: RetryOptions = { baseDelayMs: 1 };

type Peer = AsyncDisposable & {
  readonly url: string;
  /** Procedures that the implementation was called for, in order. */
  readonly calls: string[];
  /** Streams that arrived. */
  streams: number;
};

type Refusal = (stream: http2.ServerHttp2Stream, at: number) => boolean;

/** A server of the contract; `refuse` may reset a stream before the implementation is called. */
async function openPeer(
  refuse: Refusal,
  fail: (at: number) => ConnectError | undefined = () => undefined,
): Promise<Peer> {
  const calls: string[] = [];
  const httpResponse = (name: string): object => {
    calls.push(name);
    const error = fail(calls.length);
    if (error !== undefined) {
      throw error;
    }
    return {};
  };
  const handler = connectNodeAdapter({
    routes: (router) =>
      router
        .service(FlowsService, { setFlows: () => httpResponse("setFlows") })
        .service(SettingsService, { getSettings: () => httpResponse("getSettings") }),
  });
  const sessions = new Set<http2.Http2Session>();
  const peer: Peer = {
    url: "",
    calls,
    streams: 0,
    async [Symbol.asyncDispose]() {
      for (const session of sessions) {
        session.destroy();
      }
      server.close();
      await once(server, "close");
    },
  };
  const server = http2.createServer((request, response) => {
    peer.streams++;
    if (!refuse(request.stream, peer.streams)) {
      handler(request, response);
    }
  });
  server.on("session", (session) => sessions.add(session));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return Object.assign(peer, { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
}

type Clients = { flows: Client<typeof FlowsService>; settings: Client<typeof SettingsService> };

function connect(url: string, options: RetryOptions | undefined): Clients {
  const interceptors = options === undefined ? [] : [retryInterceptor(options)];
  const transport = createGrpcTransport({ baseUrl: url, interceptors });
  return { flows: createClient(FlowsService, transport), settings: createClient(SettingsService, transport) };
}

const codeOf = (call: Promise<unknown>): Promise<Code | undefined> =>
  call.then(
    () => undefined,
    (error: unknown) => ConnectError.from(error).code,
  );

const refuseFirst =
  (count: number): Refusal =>
  (stream, at) => {
    if (at > count) {
      return false;
    }
    stream.close(http2.constants.NGHTTP2_REFUSED_STREAM);
    return true;
  };

test("retries a refused stream, also of a write", async () => {
  await using peer = await openPeer(refuseFirst(2));
  const { flows } = connect(peer.url, quick);
  await flows.setFlows({});
  expect(peer).toMatchObject({ streams: 3, calls: ["setFlows"] });
});

test("a refused stream fails its call without the interceptor", async () => {
  await using peer = await openPeer(refuseFirst(1));
  const { flows } = connect(peer.url, undefined);
  expect(await codeOf(flows.setFlows({}))).toBeDefined();
  expect(peer.streams).toBe(1);
});

test("retries a read if the server is unavailable, but not a write", async () => {
  const unavailable = (at: number): ConnectError | undefined =>
    at === 1 ? new ConnectError("draining", Code.Unavailable) : undefined;
  await using peer = await openPeer(() => false, unavailable);
  const { settings } = connect(peer.url, quick);
  await settings.getSettings({});
  expect(peer.calls).toEqual(["getSettings", "getSettings"]);

  await using other = await openPeer(() => false, unavailable);
  const { flows } = connect(other.url, quick);
  expect(await codeOf(flows.setFlows({}))).toBe(Code.Unavailable);
  expect(other.calls).toEqual(["setFlows"]);
});

test("retries a write that has an idempotency key if its outcome is unknown", async () => {
  const unavailable = (at: number): ConnectError | undefined =>
    at === 1 ? new ConnectError("the outcome is unknown", Code.Unavailable) : undefined;
  await using peer = await openPeer(() => false, unavailable);
  const { flows } = connect(peer.url, quick);
  await flows.setFlows({ idempotencyKey: "k" });
  expect(peer.calls).toEqual(["setFlows", "setFlows"]);
});

test("retries a read if its connection was lost, but not a write", async () => {
  const breakFirst: Refusal = (stream, at) => {
    if (at > 1) {
      return false;
    }
    stream.session?.destroy();
    return true;
  };
  await using peer = await openPeer(breakFirst);
  await connect(peer.url, quick).settings.getSettings({});
  expect(peer).toMatchObject({ streams: 2, calls: ["getSettings"] });

  await using other = await openPeer(breakFirst);
  expect(await codeOf(connect(other.url, quick).flows.setFlows({}))).toBeDefined();
  expect(other).toMatchObject({ streams: 1, calls: [] });
});

test("retries a call whose connection could not be established", async () => {
  const free = createServer().listen(0, "127.0.0.1");
  await once(free, "listening");
  const { port } = free.address() as AddressInfo;
  free.close();
  await once(free, "close");
  let tries = 0;
  const transport = createGrpcTransport({
    baseUrl: `http://127.0.0.1:${port}`,
    interceptors: [
      retryInterceptor({ ...quick, attempts: 3 }),
      (next) => (request) => {
        tries++;
        return next(request);
      },
    ],
  });
  expect(await codeOf(createClient(FlowsService, transport).setFlows({}))).toBe(Code.Unavailable);
  expect(tries).toBe(3);
});

test("reports other errors at once", async () => {
  await using peer = await openPeer(
    () => false,
    () => new ConnectError("no", Code.PermissionDenied),
  );
  expect(await codeOf(connect(peer.url, quick).settings.getSettings({}))).toBe(Code.PermissionDenied);
  expect(peer.calls).toHaveLength(1);
});

test("gives up after the configured number of attempts", async () => {
  await using peer = await openPeer(refuseFirst(100));
  expect(await codeOf(connect(peer.url, { ...quick, attempts: 4 }).settings.getSettings({}))).toBeDefined();
  expect(peer.streams).toBe(4);
});

test("does not retry if Retry-After is too long", async () => {
  await using peer = await openPeer(
    () => false,
    () => new ConnectError("overloaded", Code.Unavailable, { "retry-after": "3600" }),
  );
  expect(await codeOf(connect(peer.url, quick).settings.getSettings({}))).toBe(Code.Unavailable);
  expect(peer.calls).toHaveLength(1);
});

test("stops retrying at the deadline of the call", async () => {
  await using peer = await openPeer(refuseFirst(1000));
  const { settings } = connect(peer.url, { attempts: 1000, baseDelayMs: 1000 });
  expect(await codeOf(settings.getSettings({}, { timeoutMs: 50 }))).toBeOneOf([
    Code.Unavailable,
    Code.DeadlineExceeded,
  ]);
  expect(peer.streams).toBeLessThan(1000);
});
