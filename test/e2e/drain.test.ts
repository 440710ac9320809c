import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { openFlowgate } from "../../src/app/flowgate.ts";
import { parseOptions } from "../../src/options/parse.ts";
import { openRaw } from "../server/http/raw-connection.ts";
import { deploy } from "./deploy.ts";
import { eventually, type Service, startService, withoutRuntime } from "./service.ts";
import { startToolService } from "./tools.ts";

/** Longer than the timeout of a test. */
const hourMs = 3_600_000;

/** The steps that it has logged. */
function steps(service: Service): string[] {
  return [...service.log().matchAll(/"msg":"draining: (.*?)"/g)].map(([, step]) => step ?? "");
}

test("between SIGTERM and the end of the delay it is not ready, but serves everything else", async () => {
  await using service = await startService({ config: { ...withoutRuntime, drain: { delayMs: hourMs } } });
  process.kill(service.pid, "SIGTERM");
  await service.untilLogged(/draining/);
  const { status, headers, body } = await service.send("GET", "/readyz");
  expect([status, headers.connection, body]).toEqual([503, "close", '{"status":"draining"}']);
  const rev = await deploy(service, { flows: [{ id: "t", type: "tab" }] });
  expect((await service.send("GET", "/flows")).headers["etag"]).toBe(`"${rev}"`);
  expect((await service.send("GET", "/healthz")).status).toBe(200);
  // A second signal ends the process immediately, except within a second of the first one.
  const signals = setInterval(() => void service.stop(), 100);
  expect(await service.stop()).toBe(143);
  clearInterval(signals);
  expect(steps(service)).toEqual([`no longer ready; calls are still accepted for ${hourMs} ms`]);
});

test("SIGINT causes no delay", async () => {
  await using service = await startService({ config: { drain: { delayMs: hourMs } } });
  expect(await service.stop("SIGINT")).toBe(0);
  await service.untilLogged(/the flows have stopped/);
  expect(steps(service)).toEqual([
    "no new connections; calls in flight may take 10000 ms",
    "calls have finished; stopping the flows",
    "the flows have stopped",
  ]);
});

test("a call that exceeds the grace period is aborted, and delays neither the flows nor the service", async () => {
  await using service = await startService({ config: { drain: { delayMs: 1, graceMs: 600 } } });
  using raw = await openRaw(service.port);
  // Its body never arrives.
  raw.write("POST /flows HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n");
  raw.write("Expect: 100-continue\r\n\r\n");
  await raw.until(/100 Continue/);
  expect(await service.stop()).toBe(0);
  await Promise.all([raw.closed(), service.untilLogged(/the flows have stopped/)]);
  expect(steps(service)).toEqual([
    "no longer ready; calls are still accepted for 1 ms",
    "no new connections; calls in flight may take 600 ms",
    "calls are still in flight; stopping the flows",
    "connections were closed with calls in flight",
    "the flows have stopped",
  ]);
});

test("a request at Node-RED's listener that ends in the grace period, and an idle connection, do not use that up", async () => {
  await using service = await startToolService({
    config: {
      ...withoutRuntime,
      nodeRed: { port: 0 },
      drain: { delayMs: 1, graceMs: hourMs },
      limits: { idleTimeoutMs: hourMs },
    },
  });
  const port = Number(new URL(service.toolsUrl).port);
  using idle = await openRaw(port);
  idle.write("GET /auth/login HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  await idle.until(/HTTP\/1.1 200/);
  using raw = await openRaw(port);
  raw.write("POST /flows HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n");
  raw.write("Expect: 100-continue\r\n\r\n");
  await raw.until(/100 Continue/);
  const stopped = service.stop();
  await service.untilLogged(/no new connections/);
  await idle.closed();
  raw.write("[]");
  await raw.until(/HTTP\/1.1 204[^]*connection: close/i);
  expect(await stopped).toBe(0);
  expect(steps(service)).toContain("calls have finished; stopping the flows");
});

test("a deployment that waits for the runtime gets a response, and stays committed", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "flowgate-drain-"));
  const delayModule = join(dataDir, "modules", "node_modules", "node-red-contrib-delay");
  const options = parseOptions({ port: 0, dataDir, runtime: { port: 0 }, log: { level: "silent" } });
  try {
    await cp(fileURLToPath(new URL("../fixtures/e2e/node-red-contrib-delay", import.meta.url)), delayModule, {
      recursive: true,
    });
    const flows = [{ id: "t", type: "tab" }];
    const first = await openFlowgate(options);
    const response = fetch(`${first.url}/flows`, {
      method: "POST",
      body: JSON.stringify(flows),
      headers: { "content-type": "application/json" },
    });
    const readFlows = async (url: string) => (await fetch(`${url}/flows`)).json();
    await eventually(async () => expect(await readFlows(first.url)).toEqual(flows));
    await first.drain();
    expect((await response).status).toBe(204);
    await writeFile(join(delayModule, "go"), "");
    await using second = await openFlowgate(options);
    expect(await readFlows(second.url)).toEqual(flows);
  } finally {
    await rm(dataDir, { recursive: true });
  }
});
