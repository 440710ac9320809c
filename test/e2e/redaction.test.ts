import { cp } from "node:fs/promises";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Receiver, openReceiver } from "../events/webhooks/receiver.ts";
import { type Collector, openCollector } from "../telemetry/collector.ts";
import { deploy, readRuntime } from "./deploy.ts";
import { debugNode, endpoint, functionNode } from "./flow-builders.ts";
import { eventually } from "./service.ts";
import { startToolService, type ToolService } from "./tools.ts";
import { type Watch, watch, watchProtocols } from "./watch-events.ts";

// Flows write the value of a credential to everything that they can write to. Whatever the service shows of that must not have it.

const value = `t0ps3cret/"wört"`;
/** Each form of it that could be seen. */
const leaks = [
  value,
  JSON.stringify(value).slice(1, -1),
  JSON.stringify(JSON.stringify(value)).slice(3, -3),
  encodeURIComponent(value),
  Buffer.from(value).toString("base64").slice(0, 12),
  Buffer.from(value).toString("hex"),
  [...Buffer.from(value)].slice(0, 6).join(","),
  "t0ps3c",
  Buffer.from(`ada:${value}`).toString("base64").slice(8),
];

const leak = `
  const value = env.get("S");
  const host = util.inspect.constructor("return process")();
  node.warn("warn " + value);
  node.error(new Error("error " + value), msg);
  node.log("log " + JSON.stringify(JSON.stringify({ value })));
  node.status({ text: "status " + value });
  flow.set("context", { [value]: [value, Buffer.from(value), encodeURIComponent(value)] });
  host.stdout.write("output " + value.slice(0, 5));
  setTimeout(() => host.stdout.write(value.slice(5) + "\\n"), 0);
  host.stderr.write("output " + Buffer.from("ada:" + value).toString("base64") + "\\n");
  host.stderr.write("output " + util.inspect(Buffer.from(value)) + "\\n");
  msg.payload = { debug: value, bytes: Buffer.from(value), hex: Buffer.from(value).toString("hex") };
  msg.published = [{ topic: "say/it", data: { value, bytes: [...Buffer.from(value)] }, retain: true }];
`;
const crash = `
  const value = env.get("S");
  util.inspect.constructor("return process")().nextTick(() => { throw new Error("crash " + value); });
`;

let receiver: Receiver;
let collector: Collector;
let service: ToolService;
let events: Watch;
const editor: string[] = [];
const stack = new AsyncDisposableStack();

beforeAll(async () => {
  receiver = stack.use(await openReceiver());
  collector = stack.use(await openCollector());
  const kinds = ["deployment", "node_error", "runtime_state", "log"];
  service = stack.use(
    await startToolService({
      prepare: (dataDir) =>
        cp(
          new URL("../fixtures/e2e/node-red-contrib-say", import.meta.url),
          join(dataDir, "modules", "node_modules", "node-red-contrib-say"),
          { recursive: true },
        ),
      config: {
        nodeRed: { port: 0, editor: true },
        tracing: { endpoint: collector.endpoint, flows: true },
        metrics: { nodes: true },
        webhooks: {
          network: { allow: ["127.0.0.1"] },
          targets: [
            { url: `http://127.0.0.1:${receiver.port}/`, kinds, secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" },
          ],
        },
        runtime: { safeMode: { exits: 1 } },
      },
    }),
  );
  events = stack.use(watch(watchProtocols["SSE"] as never, service.url));
  const socket = new WebSocket(`${service.toolsUrl.replace("http", "ws")}/comms`);
  stack.defer(() => socket.close());
  socket.addEventListener("message", ({ data }) => editor.push(String(data)));
  await once(socket, "open");
  for (const topic of ["status/#", "debug", "notification/#", "say/#"]) {
    socket.send(JSON.stringify({ subscribe: topic }));
  }

  const [tabNode, input, code, output] = endpoint("/leak", leak);
  const place = { z: tabNode?.id, x: 1, y: 1 };
  await deploy(service, {
    flows: [
      {
        ...tabNode,
        id: tabNode?.id ?? "",
        type: "tab",
        label: `tab ${value}`,
        env: [{ name: "S", type: "cred", value: "" }],
      },
      input,
      // Its name is cut within the value.
      { ...code, name: `${"x".repeat(250)}${value}`, wires: [["say", "debug", "throws", output?.id]] },
      output,
      { ...debugNode("debug", tabNode?.id ?? ""), name: `debug ${value}` },
      { id: "say", type: "say", ...place, wires: [[]] },
      { id: "crash in", type: "http in", ...place, url: "/crash", method: "get", wires: [["crash"]] },
      functionNode("throws", { z: tabNode?.id ?? "", func: `throw new Error("thrown " + env.get("S"))` }),
      functionNode("crash", { z: tabNode?.id ?? "", func: crash }),
      functionNode("start", {
        z: tabNode?.id ?? "",
        name: `started ${value}`,
        initialize: `node.error("start " + env.get("S"))`,
      }),
    ] as never,
    credentials: { [tabNode?.id ?? ""]: { S: value } },
  });
  await service.get("/leak");
});
afterAll(() => stack.disposeAsync());

/** Everything that can be seen of flows while they run, and what must be seen of what they have written. */
const exits: readonly (readonly [name: string, read: () => unknown, shown: readonly string[]])[] = [
  [
    "the log",
    () => service.log(),
    [
      "warn [redacted]",
      "error [redacted]",
      "thrown [redacted]",
      "start [redacted]",
      "output [redacted]",
      "output YWRhO[redacted]",
      "<Buffer [redacted]>",
    ],
  ],
  [
    "events",
    () => JSON.stringify(events.seen),
    [
      "warn [redacted]",
      "error [redacted]",
      "thrown [redacted]",
      "status [redacted]",
      "output [redacted]",
      "tab [redacted]",
      "debug [redacted]",
    ],
  ],
  ["the journal", () => get("/logs?pageSize=1000"), ["warn [redacted]", "output [redacted]"]],
  ["webhooks", () => receiver.received.map(({ body }) => body).join("\n"), ["warn [redacted]", "output [redacted]"]],
  [
    "traces",
    () => collector.requests.map(({ bytes }) => bytes.toString()).join("\n"),
    ["xxx[redacted]", "tab [redacted]"],
  ],
  ["metrics", () => get("/metrics"), ["tab [redacted]"]],
  ["nodes", () => get("/runtime/nodes"), ["status [redacted]", "error [redacted]"]],
  ["the runtime", () => get("/runtime"), ["started [redacted]"]],
  ["settings", () => get("/settings"), ["runtime"]],
  ["revisions", () => get("/revisions"), ["started [redacted]"]],
  ["context", () => get("/context"), ['"context"']],
  [
    "a value of context",
    () => get("/context/flow/tab%20of%20%2Fleak"),
    ['"context":{"[redacted]":["[redacted]"', '{"type":"Buffer","data":["[redacted]"]}'],
  ],
  [
    "messages to editors",
    () => editor.join("\n"),
    ["status [redacted]", '{"value":"[redacted]","bytes":["[redacted]"]}'],
  ],
  ["context in editors", () => getTool("/context/flow/tab%20of%20%2Fleak"), ["[redacted]"]],
  ["settings in editors", () => getTool("/settings"), ["httpNodeRoot"]],
  ["diagnostics in editors", () => getTool("/diagnostics"), ["nodejs"]],
  [
    "errors of the routes of nodes",
    () => getTool(`/say/fail?secret=${encodeURIComponent(value)}`),
    ["it is [redacted]"],
  ],
];

async function get(path: string): Promise<string> {
  return (await service.send("GET", path)).body;
}

async function getTool(path: string): Promise<string> {
  return (await service.sendTool("GET", path)).body;
}

test.each(exits)("the value is not in %s", async (_, read, shown) => {
  const text = await eventually(async () => {
    const seen = String(await read());
    expect(shown.filter((each) => !seen.includes(each)).map((missing) => [missing, seen.slice(-20_000)])).toEqual([]);
    return seen;
  });
  expect(leaks.filter((each) => text.includes(each))).toEqual([]);
});

test("the value is nowhere after a crash because of an error with it", async () => {
  await service.get("/crash").catch(() => {});
  await eventually(async () => expect((await readRuntime(service)).state).toBe("safe"));
  for (const [name, read, shown] of [
    ["the log", () => service.log(), "crash [redacted]"],
    ["the runtime", () => get("/runtime"), "crash [redacted]"],
    ["settings", () => get("/settings"), "crash [redacted]"],
    ["events", () => JSON.stringify(events.seen), "crash [redacted]"],
    ["webhooks", () => receiver.received.map(({ body }) => body).join("\n"), "crash [redacted]"],
    ["revisions", () => get("/revisions"), "crashed"],
    ["the audit log", () => get("/audit"), "entries"],
    ["health", () => get("/readyz"), ""],
  ] as const) {
    const text = await eventually(async () => {
      const seen = await read();
      expect([name, seen]).toEqual([name, expect.stringContaining(shown)]);
      return seen;
    });
    expect([name, leaks.filter((each) => text.includes(each))]).toEqual([name, []]);
  }
});
