import { connect } from "node:net";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type CallOptions, type Client, Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
  Http2SessionManager,
} from "@connectrpc/connect-node";
import { createGrpcWebTransport as createGrpcWebFetchTransport } from "@connectrpc/connect-web";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/flowgate/v1/auth_pb.ts";
import { FlowsService } from "../../../gen/flowgate/v1/flows_pb.ts";
import { Health, HealthCheckResponse_ServingStatus as Status } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { createGateway } from "@flowgate/gateway";
import { createFetchHandler } from "@flowgate/gateway/fetch";
import { ErrorInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";
import { openFlowgate } from "../../../src/app/flowgate.ts";
import { parseOptions } from "../../../src/options/parse.ts";
import { openServer } from "../../../src/server/open-server.ts";
import { createRouter } from "../../../src/server/pipeline/router.ts";
import { limitHealthWatches, type Readiness } from "../../../src/server/endpoints/health.ts";
import { toFailure } from "../../../src/server/pipeline/errors.ts";
import { createLog } from "../../../src/telemetry/log.ts";
import { eventually } from "../../e2e/service.ts";
import { serveRoutes } from "../serve-routes.ts";

const transports: [string, (baseUrl: string) => Transport][] = [
  [
    "Connect with JSON over HTTP/1.1",
    (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: false }),
  ],
  ["Connect over HTTP/1.1", (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "1.1" })],
  ["Connect over HTTP/2", (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "2" })],
  ["gRPC", (baseUrl) => createGrpcTransport({ baseUrl })],
  ["gRPC-Web over HTTP/1.1", (baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "1.1" })],
  ["gRPC-Web over HTTP/2", (baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "2" })],
];

const log = createLog({ level: "silent" });

const notReady: Readiness = { ready: false, notServing: [FlowsService.typeName], runtime: "starting" };

/** A server of two services whose readiness the test controls. */
async function open(first: Readiness = { ready: true }) {
  let now = first;
  let listener = (): void => {};
  const server = await openServer({
    host: "127.0.0.1",
    port: 0,
    log,
    routes: (router) => void router.service(AuthService, {}).service(FlowsService, {}),
    gate: () => {},
    interceptors: [],
    ready: () => now,
    onReadyChange: (given) => void (listener = given),
    limits: { bodyBytes: 1024 },
  });
  return Object.assign(server, {
    become(next: Readiness): void {
      now = next;
      listener();
    },
  });
}

/** Serves health by the pipeline, and counts the open watches. */
async function serveAlone() {
  let watches = 0;
  const admitWatch = () => {
    watches++;
    return () => void watches--;
  };
  const gateway = createGateway({ routes() {}, health: { admitWatch } });
  const server = await serveRoutes(createRouter({ gateway, endpoints: new Map(), exempt: new Set() }));
  return Object.assign(server, { watches: () => watches });
}

/** Health with the limits of the server, without a network. No client is counted alone, as if each were a proxy. */
function serveInProcess() {
  const closing = new AbortController();
  const admitWatch = limitHealthWatches(() => true);
  const handle = createFetchHandler({
    routes() {},
    health: { admitWatch },
    shutdownSignal: closing.signal,
    mapError: (error, context) => toFailure(error, log, context),
  });
  const transport = createGrpcWebFetchTransport({
    baseUrl: "http://server.example",
    fetch: async (input, init) => handle(new Request(input, init)),
  });
  return { close: () => closing.abort(), client: createClient(Health, transport) };
}

type Watch = Disposable & {
  /** The next reported status. */
  next(): Promise<Status | undefined>;
};

function watch(client: Client<typeof Health>, service: string, options: CallOptions = {}): Watch {
  const abortController = new AbortController();
  const iterator = client.watch({ service }, { signal: abortController.signal, ...options })[Symbol.asyncIterator]();
  return {
    async next() {
      const { done, value } = await iterator.next();
      return done === true ? undefined : value.status;
    },
    [Symbol.dispose]: () => abortController.abort(),
  };
}

async function failureOf(call: Promise<unknown>): Promise<ConnectError> {
  return ConnectError.from(
    await call.then(
      () => expect.unreachable(),
      (error: unknown) => error,
    ),
  );
}

describe.each(transports)("health over %s", (_, transport) => {
  test("Check reports the server as a whole and each service", async () => {
    await using server = await open(notReady);
    const client = createClient(Health, transport(server.url));
    const check = async (service: string) => (await client.check({ service })).status;
    expect(await check("")).toBe(Status.NOT_SERVING);
    expect(await check(FlowsService.typeName)).toBe(Status.NOT_SERVING);
    expect(await check(AuthService.typeName)).toBe(Status.SERVING);
    expect(await check(Health.typeName)).toBe(Status.SERVING);
    server.become({ ready: true });
    expect(await check("")).toBe(Status.SERVING);
    expect(await check(FlowsService.typeName)).toBe(Status.SERVING);
  });

  test("Check rejects unknown services and partial names", async () => {
    await using server = await open();
    const client = createClient(Health, transport(server.url));
    for (const service of ["flowgate.v1", "FlowsService", `${FlowsService.typeName} `, "constructor"]) {
      const failure = await failureOf(client.check({ service }));
      expect(failure.code).toBe(Code.NotFound);
      expect(failure.findDetails(ErrorInfoSchema)).toMatchObject([{ reason: "not_found" }]);
    }
  });

  test("List reports all services", async () => {
    await using server = await open(notReady);
    const { statuses } = await createClient(Health, transport(server.url)).list({});
    expect(Object.entries(statuses).map(([name, { status }]) => [name, status])).toEqual([
      ["", Status.NOT_SERVING],
      [AuthService.typeName, Status.SERVING],
      [FlowsService.typeName, Status.NOT_SERVING],
      [Health.typeName, Status.SERVING],
    ]);
  });

  test("Watch reports the current status, then each change and nothing else", async () => {
    await using server = await open(notReady);
    const client = createClient(Health, transport(server.url));
    using whole = watch(client, "");
    using flows = watch(client, FlowsService.typeName);
    expect(await whole.next()).toBe(Status.NOT_SERVING);
    expect(await flows.next()).toBe(Status.NOT_SERVING);
    server.become({ ...notReady, runtime: "restarting" });
    server.become({ ready: false, notServing: [] });
    expect(await flows.next()).toBe(Status.SERVING);
    server.become({ ready: true });
    expect(await whole.next()).toBe(Status.SERVING);
    server.become({ ready: false });
    expect(await whole.next()).toBe(Status.NOT_SERVING);
    expect(await flows.next()).toBe(Status.NOT_SERVING);
  });

  test("Watch of an unknown service stays open", async () => {
    const server = await open();
    using nothing = watch(createClient(Health, transport(server.url)), "example.v1.Nothing");
    expect(await nothing.next()).toBe(Status.SERVICE_UNKNOWN);
    const after = failureOf(nothing.next());
    server.become({ ready: false });
    server.drain();
    await server[Symbol.asyncDispose]();
    expect((await after).code).toBe(Code.Unavailable);
  });

  test("while draining, nothing is serving, and a watch reports that before it ends", async () => {
    const server = await open();
    const client = createClient(Health, transport(server.url));
    using auth = watch(client, AuthService.typeName);
    expect(await auth.next()).toBe(Status.SERVING);
    server.drain();
    expect(await auth.next()).toBe(Status.NOT_SERVING);
    const { statuses } = await client.list({});
    expect(new Set(Object.values(statuses).map(({ status }) => status))).toEqual(new Set([Status.NOT_SERVING]));
    expect((await client.check({})).status).toBe(Status.NOT_SERVING);
    // Draining can't be undone.
    server.become({ ready: true });
    expect((await client.check({})).status).toBe(Status.NOT_SERVING);
    const end = failureOf(auth.next());
    await server[Symbol.asyncDispose]();
    expect((await end).code).toBe(Code.Unavailable);
  });

  test("a watch reports NOT_SERVING also if the server closes without draining", async () => {
    const server = await open();
    using whole = watch(createClient(Health, transport(server.url)), "");
    expect(await whole.next()).toBe(Status.SERVING);
    const closed = server[Symbol.asyncDispose]();
    expect(await whole.next()).toBe(Status.NOT_SERVING);
    expect((await failureOf(whole.next())).code).toBe(Code.Unavailable);
    await closed;
  });

  test("a watch ends when its client disconnects", async () => {
    await using server = await serveAlone();
    const client = createClient(Health, transport(server.url));
    const [one, other] = [watch(client, ""), watch(client, "")];
    expect(await one.next()).toBe(Status.SERVING);
    expect(await other.next()).toBe(Status.SERVING);
    expect(server.watches()).toBe(2);
    one[Symbol.dispose]();
    await eventually(async () => expect(server.watches()).toBe(1));
    other[Symbol.dispose]();
    await eventually(async () => expect(server.watches()).toBe(0));
  });

  test("a watch ends with its deadline", async () => {
    await using server = await open();
    const client = createClient(Health, transport(server.url));
    // Connects, which may take longer than the deadline on a busy machine.
    await client.check({});
    using whole = watch(client, "", { timeoutMs: 1_000 });
    expect(await whole.next()).toBe(Status.SERVING);
    expect((await failureOf(whole.next())).code).toBe(Code.DeadlineExceeded);
  });
});

test("/readyz reports failed checks and draining", async () => {
  await using server = await open(notReady);
  const readyz = async () => {
    const reply = await fetch(`${server.url}/readyz`);
    return [reply.status, await reply.json()] as const;
  };
  expect(await readyz()).toEqual([503, { status: "not ready", runtime: "starting" }]);
  server.become({ ready: true });
  expect(await readyz()).toEqual([200, { status: "ready" }]);
  server.drain();
  expect(await readyz()).toEqual([503, { status: "draining" }]);
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
});

describe("watches", () => {
  test("are limited to 1,000, and release everything when their clients disconnect", async () => {
    const { close, client } = serveInProcess();
    const watches = Array.from({ length: 1_000 }, () => watch(client, ""));
    expect(new Set(await Promise.all(watches.map((each) => each.next())))).toEqual(new Set([Status.SERVING]));
    const rejected = await failureOf(watch(client, "").next());
    expect(rejected.code).toBe(Code.ResourceExhausted);
    expect(rejected.findDetails(ErrorInfoSchema)).toMatchObject([{ reason: "limit_exceeded" }]);
    expect((await client.check({})).status).toBe(Status.SERVING);
    for (const each of watches.slice(0, 400)) {
      each[Symbol.dispose]();
    }
    const later = await eventually(async () => {
      const again = Array.from({ length: 400 }, () => watch(client, ""));
      expect(new Set(await Promise.all(again.map((each) => each.next())))).toEqual(new Set([Status.SERVING]));
      return again;
    });
    expect((await failureOf(watch(client, "").next())).code).toBe(Code.ResourceExhausted);
    close();
    for (const each of [...watches.slice(400), ...later]) {
      expect(await each.next()).toBe(Status.NOT_SERVING);
      expect((await failureOf(each.next())).code).toBe(Code.Unavailable);
    }
  });

  test("are limited to 100 per client, and do not block other clients", async () => {
    await using server = await open();
    const watches = (count: number, localAddress: string) => {
      const client = createClient(
        Health,
        createGrpcTransport({
          baseUrl: server.url,
          sessionManager: new Http2SessionManager(
            server.url,
            {},
            { createConnection: () => connect({ host: "127.0.0.1", port: server.port, localAddress }) },
          ),
        }),
      );
      return Array.from({ length: count }, () => watch(client, ""));
    };
    const all = watches(100, "127.0.0.1");
    expect(new Set(await Promise.all(all.map((each) => each.next())))).toEqual(new Set([Status.SERVING]));
    const [late, other] = [...watches(1, "127.0.0.1"), ...watches(1, "127.0.0.2")] as [Watch, Watch];
    expect((await failureOf(late.next())).code).toBe(Code.ResourceExhausted);
    expect(await other.next()).toBe(Status.SERVING);
    [...all, other].forEach((each) => each[Symbol.dispose]());
    await eventually(async () => {
      using again = watches(1, "127.0.0.1")[0] as Watch;
      expect(await again.next()).toBe(Status.SERVING);
    });
  });

  test("that begin after closing end at once", async () => {
    const { close, client } = serveInProcess();
    close();
    using whole = watch(client, "");
    expect(await whole.next()).toBe(Status.NOT_SERVING);
    expect((await failureOf(whole.next())).code).toBe(Code.Unavailable);
  });
});

test("a gateway reports all services but the flows as serving until they have started, without a token", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "flowgate-health-"));
  try {
    const waits = join(dataDir, "modules", "node_modules", "node-red-contrib-delay");
    await cp(fileURLToPath(new URL("../../fixtures/e2e/node-red-contrib-delay", import.meta.url)), waits, {
      recursive: true,
    });
    const hash = "$2b$04$abcdefghijklmnopqrstuuJ5ZcKXk0J4o0l3v0cX0b7cQ1V4kZ5mW";
    await using gateway = await openFlowgate(
      parseOptions({
        port: 0,
        dataDir,
        runtime: { port: 0 },
        log: { level: "silent" },
        adminAuth: { users: [{ username: "ada", password: hash, permissions: "*" }] },
      }),
    );
    const client = createClient(Health, createGrpcTransport({ baseUrl: gateway.url }));
    using whole = watch(client, "");
    using flows = watch(client, FlowsService.typeName);
    expect(await whole.next()).toBe(Status.NOT_SERVING);
    expect(await flows.next()).toBe(Status.NOT_SERVING);
    expect((await client.check({ service: AuthService.typeName })).status).toBe(Status.SERVING);
    const reply = await fetch(`${gateway.url}/readyz`);
    expect([reply.status, await reply.json()]).toEqual([
      503,
      { status: "not ready", store: "open", runtime: "starting" },
    ]);
    await writeFile(join(waits, "go"), "");
    expect(await whole.next()).toBe(Status.SERVING);
    expect(await flows.next()).toBe(Status.SERVING);
    expect((await fetch(`${gateway.url}/readyz`)).status).toBe(200);
  } finally {
    await rm(dataDir, { recursive: true });
  }
});
