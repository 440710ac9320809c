import { once } from "node:events";
import { connect } from "node:http2";
import { readdirSync, readlinkSync } from "node:fs";
import { expect, test, vi } from "vitest";
import { openServer } from "../../../src/server/open-server.ts";
import { createLog } from "../../../src/telemetry/log.ts";
import { type HttpClient, sendRequest } from "../../e2e/http-client.ts";
import { onLinux } from "../../needs.ts";

const open = () =>
  openServer({
    host: "127.0.0.1",
    port: 0,
    log: createLog({ level: "silent" }),
    routes: () => {},
    gate: () => {},
    interceptors: [],
    ready: () => ({ ready: true }),
    limits: { bodyBytes: 1024 },
    docs: true,
  });

test.each(["1.1", "2"] as const)("pages and their files are served over HTTP/%s", async (httpVersion) => {
  await using server = await open();
  const client: HttpClient = { name: httpVersion, url: server.url, httpVersion };
  const script = await sendRequest(client, "GET", "/docs/swagger-ui-bundle.js");
  expect([script.status, script.headers["content-length"]]).toEqual([200, String(Buffer.byteLength(script.body))]);
  expect(script.headers).not.toHaveProperty("transfer-encoding");
  const etag = String(script.headers.etag);
  const known = await sendRequest(client, "GET", "/docs/swagger-ui-bundle.js", { headers: { "if-none-match": etag } });
  expect([known.status, known.body, known.headers.etag]).toEqual([304, "", etag]);
  const head = await sendRequest(client, "HEAD", "/docs/swagger-ui-bundle.js");
  expect([head.status, head.body, head.headers["content-length"]]).toEqual([200, "", script.headers["content-length"]]);
  const post = await sendRequest(client, "POST", "/docs/start.js", { body: "{}" });
  expect([post.status, post.headers.allow]).toEqual([405, "GET, HEAD"]);
});

test.each([
  "/docs/",
  "/docs/missing.js",
  "/docs/index.html",
  "/docs/swagger-ui.js",
  "/docs/../package.json",
  "/docs/%2e%2e/package.json",
  "/docs/..%2fpackage.json",
  "/docs/..%5cpackage.json",
  "/docs//style.css",
  "/docs/./style.css/",
  "/docs/style.css%00",
  "/docs/style.css/..",
])("there is nothing at %s", async (path) => {
  await using server = await open();
  for (const httpVersion of ["1.1", "2"] as const) {
    const response = await sendRequest({ name: httpVersion, url: server.url, httpVersion }, "GET", path);
    expect([response.status, response.json()]).toEqual([404, expect.objectContaining({ code: "not_found" })]);
  }
});

/** The files that this process has open, by the end of their paths. */
function openFiles(end: string): string[] {
  return readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).endsWith(end);
    } catch {
      return false;
    }
  });
}

test("a file is closed when the client disconnects before it is sent", onLinux, async () => {
  await using server = await open();
  // It receives less than the file has.
  const session = connect(server.url, { settings: { initialWindowSize: 1_000 } });
  const stream = session.request({ ":path": "/docs/swagger-ui-bundle.js" });
  await once(stream, "response");
  expect(openFiles("/swagger-ui-bundle.js")).toHaveLength(1);
  session.destroy();
  await vi.waitFor(() => expect(openFiles("/swagger-ui-bundle.js")).toEqual([]));
});

test("clients that leave before the response leave no file open", onLinux, async () => {
  await using server = await open();
  const { url } = server;
  // The pages are loaded by the first request.
  await (await fetch(`${url}/openapi.json`)).text();
  for (let round = 0; round < 3; round++) {
    const session = connect(url);
    await once(session, "connect");
    const streams = Array.from({ length: 20 }, () =>
      session.request({ ":path": "/openapi.json" }).on("error", () => {}),
    );
    session.destroy();
    await Promise.all(streams.map(async (stream) => stream.closed || once(stream, "close")));
  }
  await vi.waitFor(() => expect(openFiles("/openapi.json")).toEqual([]), 30_000);
});
