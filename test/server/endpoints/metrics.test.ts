import http2 from "node:http2";
import { once } from "node:events";
import { setImmediate } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { createLog } from "../../../src/telemetry/log.ts";
import { openMetricsServer } from "../../../src/server/endpoints/metrics.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { send } from "../../e2e/rest.ts";
import { openRaw } from "../http/raw-connection.ts";

/** Counts how often the metrics were rendered. */
async function open(hosts?: readonly string[]) {
  const rendered = { times: 0 };
  const metrics = createMetrics({ version: "1", deploymentTypes: [], sheddingReasons: [], limits: [] });
  metrics.watchConnections(async () => {
    rendered.times += 1;
    await setImmediate();
    return 1;
  });
  const log = createLog({ level: "silent" });
  const server = await openMetricsServer({ host: "127.0.0.1", port: 0, metrics, log, ...(hosts && { hosts }) });
  const { origin, port } = new URL(server.url);
  return Object.assign(server, { rendered, origin, port: Number(port) });
}

const scrape = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
const responses = (count: number) => (received: string) =>
  received.split("HTTP/1.1 200 OK").length > count && received.split("flowgate_connections 1\n").length > count;

describe("the metrics port", () => {
  test("renders once for concurrent scrapes, and again for later ones", async () => {
    await using server = await open();
    using raw = await openRaw(server.port);
    raw.write(scrape.repeat(10));
    await raw.untilTrue(responses(10));
    expect(server.rendered.times).toBe(1);
    raw.write(scrape);
    await raw.untilTrue(responses(11));
    expect(server.rendered.times).toBe(2);
  });

  test("closes a connection whose client does not read its responses", async () => {
    await using server = await open();
    using raw = await openRaw(server.port);
    raw.write(scrape.repeat(11));
    expect(responses(1)(await raw.closed())).toBe(false);
    expect((await send(server.url, "GET", "/metrics")).status).toBe(200);
  });

  test("rejects other hosts if hosts are configured", async () => {
    const ask = (url: string, host: string) => send(url, "GET", "/metrics", { headers: { host } });
    await using checked = await open(["flows.example"]);
    for (const host of ["flows.example", "localhost:1", "127.0.0.1"]) {
      expect((await ask(checked.origin, host)).status).toBe(200);
    }
    const rejected = await ask(checked.origin, "evil.example");
    expect([rejected.status, rejected.body]).toEqual([421, expect.stringContaining("the option hosts")]);
    await using open_ = await open();
    expect((await ask(open_.origin, "evil.example")).status).toBe(200);
  });

  test("checks :authority over HTTP/2", async () => {
    await using server = await open(["flows.example"]);
    for (const [authority, status] of [
      ["flows.example", 200],
      ["evil.example", 421],
    ] as const) {
      const session = http2.connect(server.origin);
      const stream = session.request({ ":path": "/metrics", ":authority": authority });
      const [head] = (await once(stream, "response")) as [http2.IncomingHttpHeaders];
      expect(head[":status"]).toBe(status);
      session.destroy();
    }
  });
});
