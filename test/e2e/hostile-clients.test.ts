import { connect as connectHttp2 } from "node:http2";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openRaw } from "../server/http/raw-connection.ts";
import { scrape } from "./scrape.ts";
import { eventually, type Service, startService, withoutRuntime } from "./service.ts";
import { user } from "./users.ts";

// Clients without a token that abort calls must not crash the process.

let service: Service;
let metricsUrl: string;
beforeAll(async () => {
  service = await startService({
    config: { ...withoutRuntime, adminAuth: { users: [user("admin", "*")] }, metrics: { port: 0 } },
  });
  [, metricsUrl = ""] = /^Metrics.*: (http:\/\/\S+)\/metrics$/m.exec(service.log()) ?? [];
});
afterAll(() => service?.[Symbol.asyncDispose]());

const inFlight = async () => (await scrape(metricsUrl)).sum("flowgate_requests_in_flight");

/** A stream without an end. */
const watch = { path: "/grpc.health.v1.Health/Watch", type: "application/connect+json", body: "\0\0\0\0\u0002{}" };

const begun: [string, { path: string; type: string }][] = [
  ["an RPC", { path: "/flowgate.v1.FlowsService/SetFlows", type: "application/json" }],
  ["a gRPC-Web call", { path: "/grpc.health.v1.Health/Check", type: "application/grpc-web+proto" }],
  ["an operation of the HTTP API", { path: "/auth/token", type: "application/json" }],
  ["an unknown path", { path: "/nowhere", type: "application/json" }],
];

const head = (path: string, type: string, length: number) =>
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${type}\r\nContent-Length: ${length}\r\n\r\n`;

test.each(begun)("aborting %s that waits behind a stream leaves no call in flight", async (_what, { path, type }) => {
  using raw = await openRaw(service.port);
  raw.write(`${head(watch.path, watch.type, watch.body.length)}${watch.body}${head(path, type, 500)}{`);
  await raw.until(/200 OK/);
  await eventually(async () => expect(await inFlight()).toBeGreaterThan(0));
  raw[Symbol.dispose]();
  await eventually(async () => expect(await inFlight()).toBe(0));
  expect((await service.send("GET", "/healthz")).status).toBe(200);
});

test.each(begun)("aborting %s over HTTP/2 leaves no call in flight", async (_what, { path, type }) => {
  const session = connectHttp2(service.url).on("error", () => {});
  for (const [target, contentType, body] of [
    [watch.path, watch.type, watch.body],
    [path, type, "{"],
  ] as const) {
    const stream = session.request({ ":method": "POST", ":path": target, "content-type": contentType });
    stream.on("error", () => {}).resume();
    stream.write(body, "latin1");
  }
  await eventually(async () => expect(await inFlight()).toBeGreaterThan(0));
  session.destroy();
  await eventually(async () => expect(await inFlight()).toBe(0));
  expect((await service.send("GET", "/healthz")).status).toBe(200);
});
