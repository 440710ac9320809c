import { afterAll, beforeAll, expect, test } from "vitest";
import { deploy } from "./deploy.ts";
import { endpoint, functionNode, type Node, tab } from "./flow-builders.ts";
import { scrape } from "./scrape.ts";
import { eventually, type Service, startService } from "./service.ts";

let service: Service;
beforeAll(async () => {
  service = await startService({ config: { metrics: { nodes: true }, runtime: { freshProcess: "never" } } });
});
afterAll(() => service?.[Symbol.asyncDispose]());

const place = { x: 1, y: 1 };

/** Sends five messages to `target` soon after it is started. */
const five = (z: string, target: string): Node =>
  functionNode("five", {
    z,
    wires: [[target]],
    initialize: "setTimeout(() => { for (let i = 0; i < 5; i++) node.send({ payload: i }); }, 50);",
  });

test("what nodes do is counted by tab and node, also errors that a catch node receives", async () => {
  await deploy(service, {
    flows: [
      tab("M"),
      five("M", "instance"),
      { id: "S", type: "subflow", name: "sub", in: [{ ...place, wires: [{ id: "inner" }] }], out: [] },
      functionNode("inner", { z: "S", func: "if (msg.payload % 2) throw new Error('odd'); return null;" }),
      { id: "instance", type: "subflow:S", z: "M", ...place, wires: [] },
      { id: "catching", type: "catch", z: "M", ...place, scope: null, wires: [["caught"]] },
      functionNode("caught", { z: "M", func: "return null;" }),
    ],
  });
  await eventually(async () => {
    const seen = await scrape(service.url);
    const inner = { tab: "M", node: "inner", type: "function" };
    expect(seen.sum("flowgate_node_messages_total", inner)).toBe(5);
    expect(seen.sum("flowgate_node_errors_total", inner)).toBe(2);
    expect(seen.sum("flowgate_node_duration_seconds_count", inner)).toBe(5);
    expect(seen.sum("flowgate_node_messages_total", { node: "caught" })).toBe(2);
    expect(seen.sum("flowgate_flow_errors_total", { tab: "M" })).toBe(2);
    expect(seen.sum("flowgate_flow_messages_total", { tab: "M" })).toBeGreaterThanOrEqual(7);
    expect(seen.sum("flowgate_flow_duration_seconds_count", { tab: "M" })).toBeGreaterThanOrEqual(7);
    expect(seen.sum("flowgate_flow_info", { tab: "M", label: "tab M" })).toBe(1);
  });
});

test("requests to HTTP-in nodes are counted by tab and status, with their time", async () => {
  await deploy(service, {
    flows: [
      ...endpoint("/slow", "await new Promise((done) => setTimeout(done, 30)); msg.payload = 1"),
      ...endpoint("/bad", "msg.statusCode = 503"),
    ],
  });
  const { port } = new URL(await runtimeUrl());
  for (const path of ["slow", "slow", "bad", "nowhere"]) {
    await (await fetch(`http://127.0.0.1:${port}/${path}`)).text();
  }
  await eventually(async () => {
    const seen = await scrape(service.url);
    expect(seen.sum("flowgate_flow_http_requests_total", { tab: "tab of /slow", code: "2xx" })).toBe(2);
    expect(seen.sum("flowgate_flow_http_requests_total", { tab: "tab of /bad", code: "5xx" })).toBe(1);
    expect(seen.sum("flowgate_flow_http_requests_total", { tab: "", code: "4xx" })).toBe(1);
    expect(seen.sum("flowgate_flow_http_duration_seconds_count", { tab: "tab of /slow" })).toBe(2);
    expect(seen.sum("flowgate_flow_http_duration_seconds_sum", { tab: "tab of /slow" })).toBeGreaterThanOrEqual(0.06);
  });
});

async function runtimeUrl(): Promise<string> {
  const { runtime } = (await service.send("GET", "/settings")).json() as { runtime: { httpPort: number } };
  return `http://127.0.0.1:${runtime.httpPort}`;
}

test("the runtime process is measured", async () => {
  // Again and again: the delay is that of the last seconds.
  const block = `setInterval(() => { for (const end = Date.now() + 300; Date.now() < end; ); }, 2_000);`;
  const flows = [tab("B"), functionNode("busy", { z: "B", initialize: block })];
  await deploy(service, { flows });
  await eventually(async () => {
    const seen = await scrape(service.url);
    expect(seen.sum("flowgate_runtime_heap_bytes")).toBeGreaterThan(10e6);
    expect(seen.sum("flowgate_runtime_event_loop_lag_seconds")).toBeGreaterThan(0.2);
    expect(seen.sum("flowgate_runtime_cpu_seconds_total")).toBeGreaterThan(0.3);
  });
});

test("counters do not fall when the runtime process ends", async () => {
  await deploy(service, { flows: [tab("C"), five("C", "sink"), functionNode("sink", { z: "C" })] });
  const count = async () => (await scrape(service.url)).sum("flowgate_node_messages_total", { node: "sink" });
  await eventually(async () => expect(await count()).toBe(5));
  const [child = 0] = await service.childPids();
  process.kill(child, "SIGKILL");
  await eventually(async () => expect(await count()).toBe(10));
});

test("nothing of nodes is measured unless the configuration says so", async () => {
  await using other = await startService({ config: {} });
  await deploy(other, { flows: [tab("M"), five("M", "sink"), functionNode("sink", { z: "M" })] });
  await eventually(async () => {
    const seen = await scrape(other.url);
    expect(seen.sum("flowgate_flow_messages_total", { tab: "M" })).toBe(5);
    expect([...seen.types.keys()].filter((name) => name.startsWith("flowgate_node_"))).toEqual([]);
  });
});
