import { once } from "node:events";
import { Agent as HttpAgent, type ClientRequest, get as httpGet, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, get as httpsGet } from "node:https";
import { Code, createClient } from "@connectrpc/connect";
import { expect } from "vitest";
import { EventKind, EventsService } from "../../gen/flowgate/v1/events_pb.ts";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { SettingsService } from "../../gen/flowgate/v1/settings_pb.ts";
import { ServerReflection } from "@flowgate/gateway/gen/grpc/reflection/v1/reflection_pb.js";
import { Health, HealthCheckResponse_ServingStatus as Status } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { workloads } from "./proxy.ts";
import { bearer, form, json, v2 } from "./rest.ts";
import { call } from "./rpc.ts";
import { scrape } from "./scrape.ts";
import { eventually, type Service, withoutRuntime } from "./service.ts";
import { tokenParameters } from "./users.ts";
import { createStreamReader, sendRequest, transportsOf, type HttpClient } from "./http-client.ts";

/** The service behind the proxy. */
export type Behind = {
  readonly service: Service;
  readonly metricsUrl: string;
  /** A token with all permissions. */
  readonly token: string;
  /** How long to wait for a message of a stream. Defaults to a time that only failures take. */
  readonly timeoutMs?: number;
};

const longMs = 60_000;

/** Rejects if something does not work through the proxy. */
export type Check = (httpClient: HttpClient, behind: Behind) => Promise<void>;

/** The configuration of the services in these checks. */
export const proxiedConfig = {
  ...withoutRuntime,
  trustedProxies: ["127.0.0.1"],
  hosts: ["flows.example"],
  identity: { source: "forwarded", rules: [{ id: "spiffe://example.org/reader", permissions: "read" }] },
  reflection: "open",
  metrics: { port: 0 },
  // A machine that is busy with other tests would have calls shed.
  limits: { bodyBytes: 1_500_000, eventLoopDelayMs: 0 },
  log: { level: "debug" },
};

const node = (info: string) => [{ id: "t", type: "tab", info }];
// More than the 1 MiB that nginx accepts by default.
const large = "x".repeat(1_100_000);
const tooLarge = "x".repeat(1_600_000);
const grpcHeaders = { "content-type": "application/grpc", te: "trailers" };
const settings = "/flowgate.v1.SettingsService/GetSettings";
const watch = `/${Health.typeName}/Watch`;
/** An empty message in an envelope of gRPC, gRPC-Web and Connect streams. */
const emptyMessage = new Uint8Array(5);

/** gRPC requires HTTP/2 from the client. */
const hasGrpc = ({ httpVersion }: HttpClient): boolean => httpVersion === "2";

async function checkRest(httpClient: HttpClient, { token }: Behind): Promise<void> {
  const own = bearer(token);
  const flows = await sendRequest(httpClient, "GET", "/flows", { headers: own });
  expect(flows.status).toBe(200);
  const { etag = "" } = flows.headers;
  expect(etag).toMatch(/^"[^"]+"$/);
  const head = await sendRequest(httpClient, "HEAD", "/flows", { headers: own });
  expect(head).toMatchObject({ status: 200, body: "", headers: { etag } });
  const same = await sendRequest(httpClient, "GET", "/flows", { headers: { ...own, "if-none-match": etag } });
  expect(same).toMatchObject({ status: 304, body: "", headers: { etag } });

  const refused = await sendRequest(httpClient, "GET", "/flows");
  expect(refused).toMatchObject({ status: 401, body: "", headers: { "www-authenticate": 'Bearer realm="flowgate"' } });
  const unknown = await sendRequest(httpClient, "GET", "/nowhere", { headers: own });
  expect([unknown.status, unknown.json()]).toEqual([404, expect.objectContaining({ code: "not_found" })]);
  const wrong = await sendRequest(httpClient, "DELETE", "/flows", { headers: own });
  expect(wrong).toMatchObject({ status: 405, headers: { allow: "GET, POST, HEAD, OPTIONS" } });
  const stale = { headers: { ...own, ...json, ...v2 }, body: JSON.stringify({ flows: [], rev: "stale" }) };
  const conflict = await sendRequest(httpClient, "POST", "/flows", stale);
  expect([conflict.status, conflict.json()]).toEqual([409, expect.objectContaining({ code: "version_mismatch" })]);
}

async function checkForm(httpClient: HttpClient): Promise<void> {
  const body = new URLSearchParams(tokenParameters()).toString();
  const httpResponse = await sendRequest(httpClient, "POST", "/auth/token", { headers: form, body });
  expect(httpResponse).toMatchObject({ status: 200, headers: { "cache-control": "no-store" } });
  expect(httpResponse.json()).toMatchObject({ token_type: "Bearer" });
}

async function checkUnary(httpClient: HttpClient, { token }: Behind): Promise<void> {
  const own = bearer(token);
  for (const [protocol, transport] of Object.entries(transportsOf(httpClient))) {
    const read = await call(transport, SettingsService.method.getSettings, {}, own);
    expect([protocol, read]).toEqual([
      protocol,
      { message: expect.objectContaining({ user: expect.objectContaining({ username: "admin" }) as unknown }) },
    ]);
    const stale = await call(transport, FlowsService.method.setFlows, { flows: [], rev: "stale" }, own);
    expect([protocol, stale]).toMatchObject([
      protocol,
      { refused: { code: Code.Aborted, reason: "version_mismatch" } },
    ]);
  }
}

async function checkStreams(httpClient: HttpClient, { metricsUrl, timeoutMs = longMs }: Behind): Promise<void> {
  for (const [protocol, transport] of Object.entries(transportsOf(httpClient))) {
    // Streams of checks before this one may end later.
    const watches = { method: "grpc.health.v1.Health/Watch", code: "canceled" };
    const cancelled = async () => (await scrape(metricsUrl)).sum("flowgate_requests_total", watches);
    const before = await cancelled();
    const leaving = new AbortController();
    const signal = AbortSignal.any([leaving.signal, AbortSignal.timeout(timeoutMs)]);
    const statuses = createClient(Health, transport).watch({}, { signal })[Symbol.asyncIterator]();
    const first = await statuses.next();
    expect([protocol, first]).toMatchObject([protocol, { value: { status: Status.SERVING } }]);
    leaving.abort();
    await expect(statuses.next()).rejects.toMatchObject({ code: Code.Canceled });
    await eventually(async () => expect([protocol, await cancelled()]).toEqual([protocol, before + 1]), timeoutMs);
  }
}

/** Each event arrives while the stream is open, also after the client has resumed it. */
async function checkEvents(httpClient: HttpClient, { token, timeoutMs = longMs }: Behind): Promise<void> {
  const own = bearer(token);
  const deploy = async (): Promise<string> => {
    const headers = { ...own, ...json, ...v2 };
    const body = JSON.stringify({ flows: node(String(Math.random())) });
    return ((await sendRequest(httpClient, "POST", "/flows", { headers, body })).json() as { rev: string }).rev;
  };
  const read = createStreamReader(httpClient);
  let lastId = "";
  for (const start of ["event: snapshot_end", "event: bookmark"]) {
    const headers = { ...own, accept: "text/event-stream", ...(lastId !== "" && { "last-event-id": lastId }) };
    const signal = AbortSignal.timeout(timeoutMs);
    let [received, rev] = ["", ""];
    for await (const part of read("/events?kinds=deployment", headers, signal)) {
      received += part;
      if (rev === "" && received.includes(start)) {
        rev = await deploy();
      }
      if (rev !== "" && received.slice(received.indexOf(start)).includes(`"rev":"${rev}"`)) {
        break;
      }
    }
    lastId = /^id: (\S+)$/m.exec(received.slice(received.lastIndexOf("id: ")))?.[1] ?? "";
    expect(lastId).not.toBe("");
  }
  for (const [protocol, transport] of Object.entries(transportsOf(httpClient))) {
    const request = { kinds: [EventKind.DEPLOYMENT], after: lastId };
    const options = { headers: own, signal: AbortSignal.timeout(timeoutMs) };
    let rev: string | undefined;
    for await (const event of createClient(EventsService, transport).watchEvents(request, options)) {
      if (event.kind.case === "bookmark") {
        rev = await deploy();
      } else if (event.rev === rev) {
        break;
      }
    }
    expect([protocol, rev]).toEqual([protocol, expect.any(String)]);
  }
}

// HTTP/1.1 has no bidirectional streams.
async function checkBidirectional(httpClient: HttpClient, { timeoutMs = longMs }: Behind): Promise<void> {
  for (const [protocol, transport] of Object.entries(httpClient.httpVersion === "2" ? transportsOf(httpClient) : {})) {
    if (protocol !== "Connect" && protocol !== "gRPC") {
      continue;
    }
    const answered = Promise.withResolvers<void>();
    const questions = async function* () {
      yield { messageRequest: { case: "listServices", value: "" } } as const;
      await answered.promise;
      yield { messageRequest: { case: "listServices", value: "" } } as const;
    };
    const signal = AbortSignal.timeout(timeoutMs);
    let responses = 0;
    for await (const _ of createClient(ServerReflection, transport).serverReflectionInfo(questions(), { signal })) {
      responses++;
      answered.resolve();
    }
    expect([protocol, responses]).toEqual([protocol, 2]);
  }
}

// The service reports the deadline: the client does not enforce its own.
async function checkDeadlines(httpClient: HttpClient, { token, timeoutMs = longMs }: Behind): Promise<void> {
  const rest = async () => {
    const headers = { ...bearer(token), ...json, "x-server-timeout": "0.2" };
    const httpResponse = await sendRequest(httpClient, "POST", "/flows", {
      headers,
      body: "[",
      unfinished: true,
      timeoutMs,
    });
    expect([httpResponse.status, httpResponse.json()]).toEqual([
      504,
      expect.objectContaining({ code: "deadline_exceeded" }),
    ]);
  };
  const connect = async () => {
    const headers = { "content-type": "application/connect+proto", "connect-timeout-ms": "200" };
    const { body } = await sendRequest(httpClient, "POST", watch, { headers, body: emptyMessage });
    expect(body).toContain('"code":"deadline_exceeded"');
  };
  const grpcWeb = async () => {
    const headers = { "content-type": "application/grpc-web+proto", "grpc-timeout": "200m" };
    const { body } = await sendRequest(httpClient, "POST", watch, { headers, body: emptyMessage });
    expect(body.toLowerCase()).toContain(`grpc-status: ${Code.DeadlineExceeded}`);
  };
  const grpc = async () => {
    const headers = { ...grpcHeaders, "grpc-timeout": "200m" };
    const { trailers } = await sendRequest(httpClient, "POST", watch, { headers, body: emptyMessage });
    expect(trailers).toMatchObject({ "grpc-status": String(Code.DeadlineExceeded) });
  };
  await Promise.all([rest(), connect(), grpcWeb(), ...(hasGrpc(httpClient) ? [grpc()] : [])]);
}

async function checkLargeBodies(httpClient: HttpClient, { token }: Behind): Promise<void> {
  const own = { ...bearer(token), ...json };
  const stored = await sendRequest(httpClient, "POST", "/flows", { headers: own, body: JSON.stringify(node(large)) });
  expect(stored.status).toBe(204);
  const read = await sendRequest(httpClient, "GET", "/flows", { headers: own });
  expect(read.json()).toEqual(node(large));
  const refused = await sendRequest(httpClient, "POST", "/flows", {
    headers: own,
    body: JSON.stringify(node(tooLarge)),
  });
  expect([refused.status, refused.json()]).toEqual([413, expect.objectContaining({ code: "payload_too_large" })]);

  const { gRPC: grpc } = transportsOf(httpClient);
  if (grpc !== undefined) {
    const flows = (info: string) => ({ flows: [{ id: "t", type: "tab", properties: { info } }] });
    const { setFlows, getFlows } = FlowsService.method;
    expect(await call(grpc, setFlows, flows(large), own)).toHaveProperty("message");
    expect(await call(grpc, getFlows, {}, own)).toMatchObject({ message: flows(large) });
    const outcome = await call(grpc, setFlows, flows(tooLarge), own);
    expect(outcome).toMatchObject({ refused: { code: Code.ResourceExhausted, reason: "payload_too_large" } });
  }
}

async function checkPaths(httpClient: HttpClient, { service }: Behind): Promise<void> {
  const marker = String(Math.random());
  const path = `/${marker}%2Fa%20b/%66lows//c/..;d`;
  expect(await sendRequest(httpClient, "GET", path)).toMatchObject({ status: 404 });
  expect(await logged(service, marker)).toMatchObject({ path });
}

async function checkAddress(httpClient: HttpClient, { service }: Behind): Promise<void> {
  for (const protocol of [{}, grpcHeaders]) {
    if (protocol === grpcHeaders && !hasGrpc(httpClient)) {
      continue;
    }
    const marker = String(Math.random());
    const options = { headers: { ...protocol, "x-forwarded-for": "192.0.2.1" }, from: "127.0.0.3" };
    expect((await sendRequest(httpClient, "GET", `/${marker}`, options)).status).toBeLessThan(500);
    expect(await logged(service, marker)).toMatchObject({ client: "127.0.0.3" });
  }
}

// A service with `tls` does not check the Host.
async function checkName(httpClient: HttpClient, { service }: Behind): Promise<void> {
  const name = httpClient.httpVersion === "2" ? ":authority" : "host";
  const forwarded = { "x-forwarded-host": "other.example" };
  const stranger = service.url.startsWith("https:") ? 200 : 421;
  for (const [host, status] of [
    ["flows.example", 200],
    ["evil.example", stranger],
  ] as const) {
    const headers = { ...forwarded, [name]: host };
    expect(await sendRequest(httpClient, "GET", "/settings", { headers })).toMatchObject({ status });
    if (hasGrpc(httpClient)) {
      const httpResponse = await sendRequest(httpClient, "POST", settings, {
        headers: { ...headers, ...grpcHeaders },
        body: emptyMessage,
      });
      const grpcStatus = httpResponse.trailers["grpc-status"] ?? httpResponse.headers["grpc-status"];
      expect(grpcStatus === "0").toBe(status === 200);
    }
  }
}

async function checkOrigin(httpClient: HttpClient): Promise<void> {
  const own = new URL(httpClient.url).origin;
  for (const [origin, status] of [
    [own, 200],
    [`${own}0`, 403],
    ["https://evil.example", 403],
  ] as const) {
    expect([origin, (await sendRequest(httpClient, "GET", "/settings", { headers: { origin } })).status]).toEqual([
      origin,
      status,
    ]);
  }
}

async function checkForgedCertificate(httpClient: HttpClient): Promise<void> {
  const headers = { "x-forwarded-client-cert": "URI=spiffe://example.org/reader" };
  expect(await userOf(httpClient, headers)).toBeUndefined();
  if (hasGrpc(httpClient)) {
    const httpResponse = await sendRequest(httpClient, "POST", settings, {
      headers: { ...grpcHeaders, ...headers },
      body: emptyMessage,
    });
    expect(httpResponse.trailers).toMatchObject({ "grpc-status": "0" });
    expect(httpResponse.body).not.toContain("spiffe:");
  }
}

async function checkKeepAlive(httpClient: HttpClient, { token }: Behind): Promise<void> {
  if (httpClient.httpVersion !== "1.1") {
    return;
  }
  const secure = httpClient.url.startsWith("https:");
  const agent = new (secure ? HttpsAgent : HttpAgent)({ keepAlive: true, maxSockets: 1, ...httpClient.tls });
  const reused: boolean[] = [];
  for (let i = 0; i < 3; i++) {
    const request: ClientRequest = (secure ? httpsGet : httpGet)(`${httpClient.url}/settings`, {
      agent,
      headers: bearer(token),
    });
    const [response] = (await once(request, "response")) as [IncomingMessage];
    expect(response.statusCode).toBe(200);
    reused.push(request.reusedSocket);
    response.resume();
    await once(response, "end");
  }
  agent.destroy();
  expect(reused).toEqual([false, true, true]);
}

/** The checks by topic. */
export const checks = {
  "REST, with its statuses and headers": checkRest,
  "a login by form parameters": checkForm,
  "unary calls, and the details of their errors": checkUnary,
  "streams, and their end when the client disconnects": checkStreams,
  "events as they happen, and from where the client left": checkEvents,
  "streams in both directions": checkBidirectional,
  deadlines: checkDeadlines,
  "large bodies, and rejections of larger ones": checkLargeBodies,
  "unchanged paths": checkPaths,
  "the client's address": checkAddress,
  "the requested host name": checkName,
  "the origin of pages": checkOrigin,
  "no certificate header of a client": checkForgedCertificate,
  "several requests on one connection": checkKeepAlive,
} as const satisfies Record<string, Check>;

export type CheckName = keyof typeof checks;

/** The log line of the request whose path contains the marker. */
async function logged(service: Service, marker: string): Promise<object> {
  const line = new RegExp(`^.*${marker}.*"request completed".*$`, "m");
  await service.untilLogged(line);
  return JSON.parse(line.exec(service.log())?.[0] ?? "") as object;
}

/** The user that the service identifies. */
async function userOf(
  httpClient: HttpClient,
  headers: Readonly<Record<string, string>> = {},
): Promise<string | undefined> {
  const httpResponse = await sendRequest(httpClient, "GET", "/settings", { headers });
  return (httpResponse.json() as { user?: { username: string } }).user?.username;
}

/** For proxies that request client certificates: `reader` identifies the workload with permissions, the others none. */
export async function checkClientCertificates(
  httpClient: HttpClient,
  { reader, others }: { readonly reader: Subject; readonly others: readonly Subject[] },
): Promise<void> {
  const as = (subject: Subject): HttpClient => ({
    ...httpClient,
    tls: { ...httpClient.tls, ...workloads.issue(subject) },
  });
  expect(await userOf(as(reader))).toBe("spiffe://example.org/reader");
  const forged = { "x-forwarded-client-cert": "URI=spiffe://example.org/other" };
  expect(await userOf(as(reader), forged)).toBe("spiffe://example.org/reader");
  for (const other of others) {
    expect([other, await userOf(as(other))]).toEqual([other, undefined]);
  }
}

type Subject = { readonly name: string; readonly uris?: readonly string[] };

/** Failed logins of one client do not count for another one with another address. */
export async function checkLoginLimit(
  httpClient: HttpClient,
  [one, other]: readonly [one: string, other: string],
): Promise<void> {
  const attempt = async (from: string, at: number): Promise<number> => {
    const body = new URLSearchParams(tokenParameters({ username: `u${at} of ${from}`, password: "wrong" })).toString();
    return (await sendRequest(httpClient, "POST", "/auth/token", { headers: form, body, from })).status;
  };
  const statuses = new Set<number>();
  for (let at = 0; at < 50; at++) {
    statuses.add(await attempt(one, at));
  }
  expect([...statuses]).toEqual([400]);
  expect(await attempt(one, 50)).toBe(429);
  expect(await attempt(other, 0)).toBe(400);
}
