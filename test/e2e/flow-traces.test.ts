import { afterAll, beforeAll, expect, test } from "vitest";
import { type CollectedSpan, type Collector, openCollector } from "../telemetry/collector.ts";
import { deploy } from "./deploy.ts";
import { endpoint, functionNode, type Node, tab } from "./flow-builders.ts";
import { eventually, type Service, startService } from "./service.ts";

const place = { x: 1, y: 1 };
const traceId = "a".repeat(32);
const spanId = "b".repeat(16);

/** Spans as a tree of names. */
function treeOf(spans: readonly CollectedSpan[], parent: string): unknown {
  return spans
    .filter((span) => span.parentSpanId === parent)
    .toSorted((one, other) => Number(one.startNs - other.startNs) || (one.name < other.name ? -1 : 1))
    .map((span) => {
      const children = treeOf(spans, span.spanId) as unknown[];
      return children.length === 0 ? span.name : [span.name, children];
    });
}

const flows: Node[] = [
  ...endpoint("/plain", "msg.payload = 1"),
  tab("T"),
  // Copies of the message go to a subflow, to a node that fails and its catch node, over a link, and to a node that sends another one late.
  { id: "in", type: "http in", z: "T", ...place, url: "/many/:id", method: "get", wires: [["first"]] },
  functionNode("first", {
    name: "Read order",
    z: "T",
    func: "return msg;",
    wires: [["instance", "failing", "out", "late"]],
  }),
  {
    id: "S",
    type: "subflow",
    name: "sub",
    in: [{ ...place, wires: [{ id: "inner" }] }],
    out: [{ ...place, wires: [{ id: "inner", port: 0 }] }],
  },
  functionNode("inner", { name: "Inner", z: "S", func: "return { payload: msg.payload };" }),
  { id: "instance", type: "subflow:S", z: "T", ...place, wires: [["response"]] },
  { id: "response", type: "debug", z: "T", ...place, active: false, wires: [] },
  functionNode("failing", { name: "Fail", z: "T", func: "throw new Error('no');" }),
  { id: "caught", type: "catch", z: "T", ...place, scope: ["failing"], wires: [["after"]] },
  functionNode("after", { name: "After", z: "T", func: "return null;" }),
  { id: "out", type: "link out", z: "T", ...place, links: ["linked"], wires: [] },
  { id: "linked", type: "link in", z: "T", ...place, links: ["out"], wires: [["answer"]] },
  { id: "answer", type: "http response", z: "T", ...place, statusCode: "201", wires: [] },
  functionNode("late", {
    name: "Late",
    z: "T",
    func: "setTimeout(() => { node.send({ ...msg, more: 1 }); node.done(); }, 20);",
    wires: [["end"]],
  }),
  functionNode("end", { name: "End", z: "T", func: "return null;" }),
  // Parts that have the same id, and nodes that are slow.
  { id: "start", type: "http in", z: "T", ...place, url: "/parts", method: "get", wires: [["parts", "slow"]] },
  functionNode("parts", {
    name: "Parts",
    z: "T",
    func: "return [[{ ...msg, payload: 1 }, { ...msg, payload: 2 }]];",
    wires: [["delay"]],
  }),
  {
    id: "delay",
    type: "delay",
    z: "T",
    ...place,
    pauseType: "delay",
    timeout: "20",
    timeoutUnits: "milliseconds",
    wires: [["part"]],
  },
  functionNode("part", { name: "Part", z: "T", func: "return msg.payload === 2 ? msg : null;", wires: [["reply"]] }),
  { id: "reply", type: "http response", z: "T", ...place, wires: [] },
  functionNode("slow", {
    name: "Slow",
    z: "T",
    func: "setTimeout(() => { node.error('no', msg); node.done(); }, 40);",
  }),
  { id: "caughtLate", type: "catch", z: "T", ...place, scope: ["slow"], wires: [] },
  { id: "complete", type: "complete", z: "T", ...place, scope: ["slow"], wires: [] },
];

let collector: Collector;
let service: Service;
let port: number;
beforeAll(async () => {
  collector = await openCollector();
  service = await startService({
    config: { tracing: { endpoint: collector.endpoint, flows: true }, runtime: { freshProcess: "never" } },
    env: { OTEL_BSP_SCHEDULE_DELAY: "100" },
  });
  await deploy(service, { flows });
  const settings = (await (await service.send("GET", "/settings")).json()) as { runtime: { httpPort: number } };
  port = settings.runtime.httpPort;
});
afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
  await collector?.[Symbol.asyncDispose]();
});

const request = (path: string, headers: Record<string, string> = {}) =>
  fetch(`http://127.0.0.1:${port}${path}`, { headers });

test("a request to an HTTP-in node is one trace, with a span for each message that a node processes", async () => {
  const response = await request("/many/7?q=secret", { traceparent: `00-${traceId}-${spanId}-01` });
  expect(response.status).toBe(201);
  const spansOf = () => collector.spans.filter((span) => span.traceId === traceId);
  const tree = [
    "GET /many/:id",
    [
      [
        "function Read order",
        [
          ["subflow:S", [["function Inner", ["debug"]]]],
          ["function Fail", [["catch", ["function After"]]]],
          ["link out", [["link in", ["http response"]]]],
          ["function Late", ["function End"]],
        ],
      ],
    ],
  ];
  await eventually(async () => expect(treeOf(spansOf(), spanId)).toEqual([tree]));
  const [http] = spansOf().filter(({ kind }) => kind === 2);
  expect(http?.attributes).toEqual({
    "flowgate.node.id": "in",
    "flowgate.node.type": "http in",
    "flowgate.flow.id": "T",
    "flowgate.flow.label": "tab T",
    "http.request.method": "GET",
    "http.route": "/many/:id",
    "http.response.status_code": 201,
  });
  const failed = spansOf().filter(({ status }) => status === 2);
  expect(failed.map(({ name, attributes }) => [name, attributes["flowgate.node.id"]])).toEqual([
    ["function Fail", "failing"],
  ]);
});

test("a trace that its caller does not record is not recorded, and others begin one of their own", async () => {
  const other = "c".repeat(32);
  expect((await request("/plain", { traceparent: `00-${other}-${spanId}-00` })).status).toBe(200);
  expect((await request("/plain", { traceparent: "nonsense" })).status).toBe(200);
  const named = (name: string) => collector.spans.filter((span) => span.name === name);
  await eventually(async () => expect(named("GET /plain")).toHaveLength(1));
  const [root] = named("GET /plain");
  expect(treeOf(collector.spans, root?.spanId ?? "")).toEqual([["function", ["http response"]]]);
  expect(collector.spans.filter((span) => span.traceId === other)).toEqual([]);
});

test("messages with the same id stay apart, also where a node is slow to send them or to fail", async () => {
  const other = "d".repeat(32);
  await request("/parts", { traceparent: `00-${other}-${spanId}-01` });
  const tree = [
    "GET /parts",
    [
      [
        "function Parts",
        [
          ["delay", ["function Part"]],
          ["delay", [["function Part", ["http response"]]]],
        ],
      ],
      ["function Slow", ["catch", "complete"]],
    ],
  ];
  await eventually(async () =>
    expect(
      treeOf(
        collector.spans.filter(({ traceId }) => traceId === other),
        spanId,
      ),
    ).toEqual([tree]),
  );
});

test("a message that a node sends by itself begins a trace", async () => {
  const flows = [
    tab("T"),
    functionNode("timer", {
      name: "Timer",
      z: "T",
      initialize: "setTimeout(() => node.send({ payload: 1 }), 20);",
      wires: [["receiver"]],
    }),
    functionNode("receiver", { name: "Receiver", z: "T", func: "return null;" }),
  ];
  await deploy(service, { flows });
  await eventually(async () => {
    const [root] = collector.spans.filter(({ name }) => name === "function Timer");
    expect(root?.parentSpanId).toBe("");
    expect(treeOf(collector.spans, root?.spanId ?? "")).toEqual(["function Receiver"]);
  });
});
