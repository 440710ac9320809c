import { once } from "node:events";
import { Agent as HttpAgent, type ClientRequest, get as httpGet, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, get as httpsGet } from "node:https";
import { Code, createClient } from "@connectrpc/connect";
import { expect } from "vitest";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { SettingsService } from "../../gen/flowgate/v1/settings_pb.ts";
import { ServerReflection } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { Health, HealthCheckResponse_ServingStatus as Status } from "../../gen/grpc/health/v1/health_pb.ts";
import { workloads } from "./proxy.ts";
import { bearer, form, json, v2 } from "./rest.ts";
import { call } from "./rpc.ts";
import { scrape } from "./scrape.ts";
import { eventually, type Service } from "./service.ts";
import { tokenParameters } from "./users.ts";
import { sendRequest, transportsOf, type Endpoint } from "./endpoint.ts";

/** What is behind the proxy. */
export type Behind = {
  readonly service: Service;
  readonly metricsUrl: string;
  /** Of one who may do everything. */
  readonly token: string;
  /** Time limit for a message of a stream. */
  readonly timeoutMs?: number;
};

/** Rejects where what should come through a proxy does not. */
export type Check = (endpoint: Endpoint, behind: Behind) => Promise<void>;

/** What each service of these checks is told. */
export const proxiedConfig = {
  trustedProxies: ["127.0.0.1"],
  hosts: ["flows.example"],
  identity: {
    source: "forwarded",
    rules: [{ id: "spiffe://example.org/reader", permissions: "read" }],
  },
  reflection: "open",
  metrics: { port: 0 },
  // A machine that is busy with other tests would have calls shed.
  limits: { bodyBytes: 3_000_000, eventLoopDelayMs: 0 },
  log: { level: "debug" },
};

const node = (info: string) => [{ id: "t", type: "tab", info }];
const large = "x".repeat(2_000_000);
const tooLarge = "x".repeat(3_500_000);
const grpcHeaders = { "content-type": "application/grpc", te: "trailers" };
const settings = "/flowgate.v1.SettingsService/GetSettings";
const watch = `/${Health.typeName}/Watch`;
/** A message of no bytes, as gRPC, gRPC-Web and Connect's streams frame it. */
const emptyMessage = new Uint8Array(5);

/** gRPC needs HTTP/2 from the client on. */
const hasGrpc = ({ httpVersion }: Endpoint): boolean => httpVersion === "2";

async function checkRest(endpoint: Endpoint, { token }: Behind): Promise<void> {
  const own = bearer(token);
  const flows = await sendRequest(endpoint, "GET", "/flows", { headers: own });
  expect(flows.status).toBe(200);
  const { etag = "" } = flows.headers;
  expect(etag).toMatch(/^"[^"]+"$/);
  const head = await sendRequest(endpoint, "HEAD", "/flows", { headers: own });
  expect(head).toMatchObject({ status: 200, body: "", headers: { etag } });
  const same = await sendRequest(endpoint, "GET", "/flows", { headers: { ...own, "if-none-match": etag } });
  expect(same).toMatchObject({ status: 304, body: "", headers: { etag } });

  const refused = await sendRequest(endpoint, "GET", "/flows");
  expect(refused).toMatchObject({
    status: 401,
    body: "",
    headers: { "www-authenticate": 'Bearer realm="flowgate"' },
  });
  const unknown = await sendRequest(endpoint, "GET", "/nowhere", { headers: own });
  expect([unknown.status, unknown.json()]).toEqual([404, expect.objectContaining({ code: "not_found" })]);
  const wrong = await sendRequest(endpoint, "DELETE", "/flows", { headers: own });
  expect(wrong).toMatchObject({ status: 405, headers: { allow: "GET, POST, HEAD, OPTIONS" } });
  const stale = { headers: { ...own, ...json, ...v2 }, body: JSON.stringify({ flows: [], rev: "stale" }) };
  const conflict = await sendRequest(endpoint, "POST", "/flows", stale);
  expect([conflict.status, conflict.json()]).toEqual([409, expect.objectContaining({ code: "version_mismatch" })]);
}

async function checkForm(endpoint: Endpoint): Promise<void> {
  const body = new URLSearchParams(tokenParameters()).toString();
  const answer = await sendRequest(endpoint, "POST", "/auth/token", { headers: form, body });
  expect(answer).toMatchObject({ status: 200, headers: { "cache-control": "no-store" } });
  expect(answer.json()).toMatchObject({ token_type: "Bearer" });
}

async function checkUnary(endpoint: Endpoint, { token }: Behind): Promise<void> {
  const own = bearer(token);
  for (const [protocol, transport] of Object.entries(transportsOf(endpoint))) {
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

async function checkStreams(endpoint: Endpoint, { metricsUrl, timeoutMs = 10_000 }: Behind): Promise<void> {
  for (const [protocol, transport] of Object.entries(transportsOf(endpoint))) {
    const cancelled = async () => (await scrape(metricsUrl)).sum("flowgate_requests_total", { code: "canceled" });
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

// HTTP/1.1 has none.
async function checkBidirectionalStreams(endpoint: Endpoint, { timeoutMs = 10_000 }: Behind): Promise<void> {
  for (const [protocol, transport] of Object.entries(endpoint.httpVersion === "2" ? transportsOf(endpoint) : {})) {
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
    let answers = 0;
    for await (const _ of createClient(ServerReflection, transport).serverReflectionInfo(questions(), { signal })) {
      answers++;
      answered.resolve();
    }
    expect([protocol, answers]).toEqual([protocol, 2]);
  }
}

// The client waits for the service to say so: it has no deadline of its own.
async function checkDeadlines(endpoint: Endpoint, { token, timeoutMs = 20_000 }: Behind): Promise<void> {
  const rest = async () => {
    const headers = { ...bearer(token), ...json, "x-server-timeout": "0.2" };
    const answer = await sendRequest(endpoint, "POST", "/flows", { headers, body: "[", unfinished: true, timeoutMs });
    expect([answer.status, answer.json()]).toEqual([504, expect.objectContaining({ code: "deadline_exceeded" })]);
  };
  const connect = async () => {
    const headers = { "content-type": "application/connect+proto", "connect-timeout-ms": "200" };
    const { body } = await sendRequest(endpoint, "POST", watch, { headers, body: emptyMessage });
    expect(body).toContain('"code":"deadline_exceeded"');
  };
  const grpcWeb = async () => {
    const headers = { "content-type": "application/grpc-web+proto", "grpc-timeout": "200m" };
    const { body } = await sendRequest(endpoint, "POST", watch, { headers, body: emptyMessage });
    expect(body.toLowerCase()).toContain(`grpc-status: ${Code.DeadlineExceeded}`);
  };
  const grpc = async () => {
    const headers = { ...grpcHeaders, "grpc-timeout": "200m" };
    const { trailers } = await sendRequest(endpoint, "POST", watch, { headers, body: emptyMessage });
    expect(trailers).toMatchObject({ "grpc-status": String(Code.DeadlineExceeded) });
  };
  await Promise.all([rest(), connect(), grpcWeb(), ...(hasGrpc(endpoint) ? [grpc()] : [])]);
}

async function checkLargeBodies(endpoint: Endpoint, { token }: Behind): Promise<void> {
  const own = { ...bearer(token), ...json };
  const stored = await sendRequest(endpoint, "POST", "/flows", { headers: own, body: JSON.stringify(node(large)) });
  expect(stored.status).toBe(204);
  const read = await sendRequest(endpoint, "GET", "/flows", { headers: own });
  expect(read.json()).toEqual(node(large));
  const refused = await sendRequest(endpoint, "POST", "/flows", { headers: own, body: JSON.stringify(node(tooLarge)) });
  expect([refused.status, refused.json()]).toEqual([413, expect.objectContaining({ code: "payload_too_large" })]);

  const { gRPC: grpc } = transportsOf(endpoint);
  if (grpc !== undefined) {
    const flows = (info: string) => ({ flows: [{ id: "t", type: "tab", properties: { info } }] });
    const { setFlows, getFlows } = FlowsService.method;
    expect(await call(grpc, setFlows, flows(large), own)).toHaveProperty("message");
    expect(await call(grpc, getFlows, {}, own)).toMatchObject({ message: flows(large) });
    const outcome = await call(grpc, setFlows, flows(tooLarge), own);
    expect(outcome).toMatchObject({ refused: { code: Code.ResourceExhausted, reason: "payload_too_large" } });
  }
}

async function checkPaths(endpoint: Endpoint, { service }: Behind): Promise<void> {
  const marker = String(Math.random());
  const path = `/${marker}%2Fa%20b/%66lows//c/..;d`;
  expect(await sendRequest(endpoint, "GET", path)).toMatchObject({ status: 404 });
  expect(await logged(service, marker)).toMatchObject({ path });
}

async function checkAddress(endpoint: Endpoint, { service }: Behind): Promise<void> {
  for (const protocol of [{}, grpcHeaders]) {
    if (protocol === grpcHeaders && !hasGrpc(endpoint)) {
      continue;
    }
    const marker = String(Math.random());
    const options = { headers: { ...protocol, "x-forwarded-for": "192.0.2.1" }, from: "127.0.0.3" };
    expect((await sendRequest(endpoint, "GET", `/${marker}`, options)).status).toBeLessThan(500);
    expect(await logged(service, marker)).toMatchObject({ client: "127.0.0.3" });
  }
}

// Where the service has `tls` it does not ask for the Host.
async function checkName(endpoint: Endpoint, { service }: Behind): Promise<void> {
  const name = endpoint.httpVersion === "2" ? ":authority" : "host";
  const forwarded = { "x-forwarded-host": "other.example" };
  const stranger = service.url.startsWith("https:") ? 200 : 421;
  for (const [host, status] of [
    ["flows.example", 200],
    ["evil.example", stranger],
  ] as const) {
    const headers = { ...forwarded, [name]: host };
    expect(await sendRequest(endpoint, "GET", "/settings", { headers })).toMatchObject({ status });
    if (hasGrpc(endpoint)) {
      const answer = await sendRequest(endpoint, "POST", settings, {
        headers: { ...headers, ...grpcHeaders },
        body: emptyMessage,
      });
      const grpcStatus = answer.trailers["grpc-status"] ?? answer.headers["grpc-status"];
      expect(grpcStatus === "0").toBe(status === 200);
    }
  }
}

async function checkOrigin(endpoint: Endpoint): Promise<void> {
  const own = new URL(endpoint.url).origin;
  for (const [origin, status] of [
    [own, 200],
    [`${own}0`, 403],
    ["https://evil.example", 403],
  ] as const) {
    expect([origin, (await sendRequest(endpoint, "GET", "/settings", { headers: { origin } })).status]).toEqual([
      origin,
      status,
    ]);
  }
}

async function checkForgedCertificate(endpoint: Endpoint): Promise<void> {
  const headers = { "x-forwarded-client-cert": "URI=spiffe://example.org/reader" };
  expect(await userOf(endpoint, headers)).toBeUndefined();
  if (hasGrpc(endpoint)) {
    const answer = await sendRequest(endpoint, "POST", settings, {
      headers: { ...grpcHeaders, ...headers },
      body: emptyMessage,
    });
    expect(answer.trailers).toMatchObject({ "grpc-status": "0" });
    expect(answer.body).not.toContain("spiffe:");
  }
}

async function checkKeepAlive(endpoint: Endpoint, { token }: Behind): Promise<void> {
  if (endpoint.httpVersion !== "1.1") {
    return;
  }
  const secure = endpoint.url.startsWith("https:");
  const agent = new (secure ? HttpsAgent : HttpAgent)({ keepAlive: true, maxSockets: 1, ...endpoint.tls });
  const reused: boolean[] = [];
  for (let i = 0; i < 3; i++) {
    const request: ClientRequest = (secure ? httpsGet : httpGet)(`${endpoint.url}/settings`, {
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

/** By what they are about. */
export const checks = {
  "REST, with its statuses and headers": checkRest,
  "a login by form": checkForm,
  "unary calls, and the details of their errors": checkUnary,
  "streams, and their end when the client leaves": checkStreams,
  "bidirectional streams": checkBidirectionalStreams,
  deadlines: checkDeadlines,
  "large bodies, and refusals of larger ones": checkLargeBodies,
  "paths as they were sent": checkPaths,
  "the client's address": checkAddress,
  "the name by which the client calls": checkName,
  "the origin of pages": checkOrigin,
  "no word of a client about its certificate": checkForgedCertificate,
  "several requests on one connection": checkKeepAlive,
} as const satisfies Record<string, Check>;

export type CheckName = keyof typeof checks;

/** What the service logs of the request whose path has this in it. */
async function logged(service: Service, marker: string): Promise<object> {
  const line = new RegExp(`^.*${marker}.*"request completed".*$`, "m");
  await service.untilLogged(line);
  return JSON.parse(line.exec(service.log())?.[0] ?? "") as object;
}

/** Who the service takes the client for. */
async function userOf(endpoint: Endpoint, headers: Readonly<Record<string, string>> = {}): Promise<string | undefined> {
  const answer = await sendRequest(endpoint, "GET", "/settings", { headers });
  return (answer.json() as { user?: { username: string } }).user?.username;
}

/** Of proxies that ask for client certificates. */
export async function checkClientCertificates(endpoint: Endpoint): Promise<void> {
  const as = (name: string): Endpoint => ({ ...endpoint, tls: { ...endpoint.tls, ...workloads.issue({ name }) } });
  expect(await userOf(as("reader"))).toBe("spiffe://example.org/reader");
  const forged = { "x-forwarded-client-cert": "URI=spiffe://example.org/other" };
  expect(await userOf(as("reader"), forged)).toBe("spiffe://example.org/reader");
  for (const name of ["other", "other/reader", "x;URI=spiffe://example.org/reader", "x,CN=reader", "reader,O=x"]) {
    expect([name, await userOf(as(name))]).toEqual([name, undefined]);
  }
}

/** Failed logins of one client do not count for another; both have these addresses. */
export async function checkLoginLimit(
  endpoint: Endpoint,
  [one, other]: readonly [one: string, other: string],
): Promise<void> {
  const attempt = async (from: string, at: number): Promise<number> => {
    const body = new URLSearchParams(tokenParameters({ username: `u${at} of ${from}`, password: "wrong" })).toString();
    return (await sendRequest(endpoint, "POST", "/auth/token", { headers: form, body, from })).status;
  };
  const statuses = new Set<number>();
  for (let at = 0; at < 50; at++) {
    statuses.add(await attempt(one, at));
  }
  expect([...statuses]).toEqual([400]);
  expect(await attempt(one, 50)).toBe(429);
  expect(await attempt(other, 0)).toBe(400);
}
