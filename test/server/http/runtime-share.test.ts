import { once } from "node:events";
import http from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { Health } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { silentObserver } from "../../../src/telemetry/observer.ts";
import { createFolder } from "../../store/builders.ts";
import { openApi } from "../open-api.ts";
import { openRaw } from "./raw-connection.ts";
import { type Holder, startHolder } from "./start-holder.ts";
import { onLinux } from "../../needs.ts";

const json = "Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
const slowCall = `POST /auth/token HTTP/1.1\r\nHost: localhost\r\n${json}`;

type Target = { readonly port: number; readonly localAddress?: string } | { readonly socketPath: string };

/** The status of a call over a new connection; undefined if it is reset. */
async function call(target: Target): Promise<number | undefined> {
  const request = http.get({ ...target, host: "127.0.0.1", path: "/auth/login", agent: false });
  try {
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    await text(response);
    return response.statusCode;
  } catch {
    return undefined;
  }
}

async function tenTimes(target: Target): Promise<(number | undefined)[]> {
  const statuses: (number | undefined)[] = [];
  for (let count = 0; count < 10; count += 1) {
    statuses.push(await call(target));
  }
  return statuses;
}

/** Why a new watch of the health is rejected; undefined if it is served. */
async function watchFailure(port: number): Promise<string | undefined> {
  const { watch } = createClient(Health, createGrpcTransport({ baseUrl: `http://127.0.0.1:${port}` }));
  try {
    for await (const _ of watch({})) {
      break;
    }
    return undefined;
  } catch (error) {
    return ConnectError.from(error).rawMessage;
  }
}

const allServed = Array(10).fill(200);

/** A server that knows the process of the holder as its runtime, unless it is not to be recognised. */
async function open(limits: object, isRecognised = true) {
  const folder = await createFolder();
  const limited: string[] = [];
  const reasons: string[] = [];
  let holder: Holder | undefined;
  let successor: number | undefined;
  const socketPath = join(folder.path, "s");
  const server = await openApi({
    socket: { path: socketPath, isRequired: true },
    limits: { bodyBytes: 1024, ...limits },
    runtimeProcess: { processId: () => (isRecognised ? (successor ?? holder?.pid) : undefined), hasChildren: false },
    onRuntimeAbuse: (reason) => void reasons.push(reason),
    observer: { ...silentObserver, limitReached: (limit) => void limited.push(limit) },
  });
  return {
    port: server.port,
    socketPath,
    lines: server.lines,
    limited,
    reasons,
    hold(count: number, held = slowCall, reconnects = true, from: readonly string[] = ["127.0.0.1"]) {
      holder = startHolder({ host: "127.0.0.1", port: server.port, count, from, text: held, reconnects });
      return holder;
    },
    holdStreams(count: number, streams: number, path: string) {
      const target = { host: "127.0.0.1", port: server.port };
      holder = startHolder({ ...target, count, streams: { count: streams, path }, reconnects: true });
      return holder;
    },
    /** Another process takes the place of the holder, which goes on. */
    replaceHolder() {
      successor = process.pid;
    },
    async [Symbol.asyncDispose]() {
      await holder?.[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}

describe("a runtime that uses up the API", onLinux, () => {
  test.each([
    ["once", 100, false],
    ["again and again", 110, true],
  ])("by connections with calls in flight, opened %s, does not keep others out", async (_how, count, reconnects) => {
    await using server = await open({ connectionsPerSource: 100, inFlight: 0, inFlightPerSource: 0 });
    await server.hold(count, slowCall, reconnects).until(({ connects }) => connects >= count);
    expect(await tenTimes({ port: server.port })).toEqual(allServed);
    expect(await tenTimes({ socketPath: server.socketPath })).toEqual(allServed);
    expect(server.limited).toContain("runtime");
    const reason = "flows used up their share of the connections and calls of the API";
    expect(server.reasons).toContain(reason);
    expect(server.lines).toContainEqual(
      expect.objectContaining({ level: "warn", msg: `${reason}: further ones are closed` }),
    );
  });

  test("by connections that outlast it is no fault of the process that replaces it", async () => {
    await using server = await open({ connectionsPerSource: 100, inFlight: 0, inFlightPerSource: 0 });
    await server.hold(110).until(({ connects }) => connects >= 220);
    await expect.poll(() => server.reasons.length).toBeGreaterThan(0);
    server.replaceHolder();
    const counts = { limited: server.limited.length, reasons: server.reasons.length };
    // Held connections find no room.
    await expect.poll(() => server.limited.slice(counts.limited)).toContain("runtime");
    expect(server.reasons).toHaveLength(counts.reasons);
  });

  test("by connections with calls in flight from several addresses does not keep others out", async () => {
    await using server = await open({ connections: 100, connectionsPerSource: 100, inFlight: 0, inFlightPerSource: 0 });
    const addresses = ["127.0.0.2", "127.0.0.3", "127.0.0.4"];
    await server.hold(99, slowCall, false, addresses).until(({ connects }) => connects >= 99);
    using _ = await openRaw(server.port);
    expect(await tenTimes({ port: server.port })).toEqual(allServed);
  });

  test("by the same keeps them out if it is not recognised, but not those on the socket or from elsewhere", async () => {
    await using server = await open({ connectionsPerSource: 100, inFlight: 0, inFlightPerSource: 0 }, false);
    await server.hold(110).until(({ connects }) => connects >= 220);
    await expect.poll(() => call({ port: server.port })).toBeUndefined();
    expect(await tenTimes({ port: server.port })).toEqual(Array(10).fill(undefined));
    expect(await tenTimes({ socketPath: server.socketPath })).toEqual(allServed);
    // As the probes of a kubelet, which have the address of the node.
    expect(await tenTimes({ port: server.port, localAddress: "127.0.0.2" })).toEqual(allServed);
  });

  test("by connections that are idle does not keep others out, recognised or not", async () => {
    for (const isRecognised of [true, false]) {
      await using server = await open({ connectionsPerSource: 100 }, isRecognised);
      await server.hold(110, "").until(({ connects }) => connects >= 220);
      expect(await tenTimes({ port: server.port })).toEqual(allServed);
      expect(await tenTimes({ socketPath: server.socketPath })).toEqual(allServed);
    }
  });

  test("by slow calls does not keep others out", async () => {
    await using server = await open({ inFlightPerSource: 50 });
    await server.hold(60).until(({ connects }) => connects >= 60);
    await expect.poll(() => server.limited).toContain("runtime");
    await expect.poll(() => call({ port: server.port })).toBe(200);
    expect(await tenTimes({ port: server.port })).toEqual(allServed);
    expect(await tenTimes({ socketPath: server.socketPath })).toEqual(allServed);
  });

  test("by floods of health checks on HTTP/2 connections loses those", async () => {
    await using server = await open({ inFlightPerSource: 50 });
    await server.holdStreams(2, 60, "/grpc.health.v1.Health/Watch").until(({ connects }) => connects >= 6);
    expect(server.limited).toContain("runtime");
    expect(await tenTimes({ port: server.port })).toEqual(allServed);
  });

  test.each([
    ["does not keep", true, undefined],
    ["keeps", false, "too many open watches: use Check"],
  ])("by health watches on few connections %s others out: recognised: %s", async (_verb, isRecognised, failure) => {
    await using server = await open({}, isRecognised);
    const holder = server.holdStreams(2, 60, "/grpc.health.v1.Health/Watch");
    await holder.until(({ responses }) => responses >= 120);
    expect(await watchFailure(server.port)).toBe(failure);
  });

  test("by slow calls keeps them out if it is not recognised, but not those on the socket", async () => {
    await using server = await open({ inFlightPerSource: 50 }, false);
    await server.hold(60).until(({ connects }) => connects >= 60);
    await expect.poll(() => call({ port: server.port })).toBe(503);
    expect(await tenTimes({ socketPath: server.socketPath })).toEqual(allServed);
  });
});

test("the body of a health check ends the connection if it does not arrive", async () => {
  await using server = await open({ stallTimeoutMs: 600_000, requestTimeoutMs: 600_000 });
  using raw = await openRaw(server.port);
  raw.write(slowCall.replace("/auth/token", "/grpc.health.v1.Health/Check"));
  expect(await raw.closed()).toMatch(/^HTTP\/1\.1 408 /);
  expect(server.limited).toEqual(["stallTimeoutMs"]);
});
