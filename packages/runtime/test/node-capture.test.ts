import { cp } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createListeners } from "@flowgate/base/listeners";
import type { FlowNode } from "@flowgate/flows";
import { messageFd } from "../src/messages.ts";
import type { NodeEvent, NodeEvents, NodeObserver } from "../src/node-events.ts";
import { type OpenedRuntime, revision, runtimeUnderTest } from "./builders.ts";
import { endpoint, escape, functionNode, onTab, tab } from "./flow-builders.ts";

type Observed = NodeObserver & {
  readonly batches: readonly NodeEvents[];
  readonly events: readonly NodeEvent[];
  readonly endCount: () => number;
  setDebug(isWanted: boolean): void;
  /** Resolves with the events so far, when they match. */
  until(matches: (events: readonly NodeEvent[]) => boolean): Promise<readonly NodeEvent[]>;
};

function observe(): Observed {
  const batches: NodeEvents[] = [];
  const events: NodeEvent[] = [];
  const changes = createListeners<void>();
  const demand = createListeners<void>();
  let ends = 0;
  let isWanted = false;
  return {
    batches,
    events,
    endCount: () => ends,
    onEvents(batch) {
      batches.push(batch);
      events.push(...batch.events);
      changes.notify();
    },
    onEnd() {
      ends += 1;
    },
    hasLeftErrors: () => false,
    wantsDebug: () => isWanted,
    onDemand: (listener) => demand.add(listener),
    setDebug(wanted) {
      isWanted = wanted;
      demand.notify();
    },
    until: (matches) =>
      new Promise((resolve) => {
        const subscription = changes.add(() => look());
        const look = (): void => {
          if (matches(events)) {
            subscription[Symbol.dispose]();
            resolve([...events]);
          }
        };
        look();
      }),
  };
}

function ofKind<Kind extends NodeEvent["kind"]>(
  events: readonly NodeEvent[],
  kind: Kind,
): Extract<NodeEvent, { kind: Kind }>[] {
  return events.filter((event): event is Extract<NodeEvent, { kind: Kind }> => event.kind === kind);
}

/** Empty: it is about no node. */
function idOf(event: NodeEvent): string {
  return event.kind === "editor" ? "" : event.nodeId;
}

/** The number of errors and warnings that were reported. */
function countErrors(events: readonly NodeEvent[]): number {
  return ofKind(events, "error").reduce((sum, { count }) => sum + count, 0);
}

const catchAll = { ...onTab("c"), type: "catch", name: "", scope: null, uncaught: false, wires: [[]] };

/** Shows the payload of what it receives. */
const debug = {
  ...onTab("d"),
  type: "debug",
  name: "show",
  active: true,
  tosidebar: true,
  complete: "payload",
  targetType: "msg",
  wires: [],
};

describe("a running child", () => {
  let runtime: OpenedRuntime;
  let observed: Observed;
  let seq = 0;
  const run = async (flows: readonly FlowNode[], type: "full" | "nodes" = "nodes"): Promise<number> => {
    seq += 1;
    const from = observed.events.length;
    await runtime.apply(revision(seq, flows), type);
    return from;
  };

  beforeAll(async () => {
    observed = observe();
    runtime = await runtimeUnderTest({ nodes: observed });
    await run([]);
  });
  afterAll(() => runtime[Symbol.asyncDispose]());

  test("an error that a catch node receives is reported, and so is one that nobody receives", async () => {
    const code = `if (msg.payload.all) throw new Error("one"); node.error("two", msg); node.error("three");`;
    const flows = endpoint("/fail", code);
    const caught = flows.map((node) => (node.id === "/fail-tab" ? node : { ...node, z: "/fail-tab" }));
    const from = await run([...caught, { ...catchAll, z: "/fail-tab" }]);
    await runtime.get("/fail");
    void runtime.get("/fail?all=1").catch(() => {});
    const events = await observed.until((all) => countErrors(all.slice(from)) >= 3);
    const place = { nodeId: "/fail-function", nodeType: "function", flowId: "/fail-tab", flowLabel: "/fail", line: 1 };
    expect(ofKind(events.slice(from), "error")).toMatchObject([
      { ...place, level: "error", message: "two", caught: true },
      { ...place, level: "error", message: "three" },
      { ...place, level: "error", message: "Error: one", caught: true },
    ]);
    expect(ofKind(events.slice(from), "error")[1]).not.toHaveProperty("caught");
  });

  test.each<[string, Parameters<typeof functionNode>[1], object]>([
    [
      "its code",
      { func: `\n  const a = null;\n  return a.b;` },
      { line: 3, column: 12, message: /^TypeError: /, stack: /^ {4}at Function node:f \[Divide: \[1\]\]:3:12$/ },
    ],
    [
      "a function in its code",
      { func: `const f = () => { throw new Error("in f"); };\n\nf();` },
      {
        line: 1,
        column: 25,
        stack: /^ {4}at f \(Function node:f \[Divide: \[1\]\]:1:25\)\n {4}at Function node:f \[Divide: \[1\]\]:3:1$/,
      },
    ],
    ["a warning", { func: `\n\n  node.warn("careful");` }, { line: 3, level: "warn", message: "careful" }],
    [
      "an unknown name",
      { func: `\nmissing();` },
      { line: 2, message: /^ReferenceError: missing is not defined/, stack: /:2:1$/ },
    ],
    ["a syntax error", { func: `const a = 1;\nconst a = 2;` }, { line: 2, message: /^SyntaxError: / }],
    [
      "its setup",
      { initialize: `let a;\nthrow new Error("setup");` },
      { line: 2, column: 7, message: "Error: setup", stack: /:2:7$/ },
    ],
    [
      "the first line of its setup",
      { initialize: `throw new Error("setup");` },
      { line: 1, column: 7, stack: /:1:7$/ },
    ],
  ])("an error of a function node has the line of %s", async (_, code, expected) => {
    const f = { ...functionNode("f", { z: "T", ...code }), name: "Divide: [1]" };
    const once = { ...onTab("i"), type: "inject", once: true, onceDelay: 0.1, props: [], wires: [["f"]] };
    const from = await run([tab("T"), f, once], "full");
    const events = await observed.until((all) => countErrors(all.slice(from)) > 0);
    const { message, stack, ...others } = { message: /./, stack: /^$/, ...expected } as Record<string, string | RegExp>;
    const [error] = ofKind(events.slice(from), "error");
    expect(error).toMatchObject({ nodeId: "f", nodeName: "Divide: [1]", flowLabel: "tab T", ...others });
    expect(error?.message).toMatch(message as RegExp);
    expect(error?.stack ?? "").toMatch(stack as RegExp);
  });

  test("an error in the cleanup of a function node, which is removed, has its line", async () => {
    const finalize = `let a;\nthrow new Error("end");`;
    const from = await run([tab("T"), { ...functionNode("f", { z: "T" }), finalize }]);
    await run([]);
    const events = await observed.until((all) =>
      ofKind(all.slice(from), "stopped").some(({ nodeId }) => nodeId === "f"),
    );
    expect(ofKind(events.slice(from), "error")).toMatchObject([
      { nodeId: "f", flowLabel: "tab T", message: "Error: end", line: 2, column: 7 },
    ]);
  });

  test("an error of a node in nested subflows names the node in the flows, and the instances", async () => {
    const flows = [
      ...endpoint("/sub", "node.send(msg); return;"),
      { id: "outer", type: "subflow", name: "Outer", in: [{ x: 1, y: 1, wires: [{ id: "nested" }] }], out: [] },
      { id: "inner", type: "subflow", name: "Inner", in: [{ x: 1, y: 1, wires: [{ id: "deep" }] }], out: [] },
      { ...onTab("nested"), z: "outer", type: "subflow:inner", wires: [] },
      { ...functionNode("deep", { z: "inner", func: `node.status("deep"); throw new Error("deep")` }), name: "Deep" },
      { ...onTab("instance"), z: "/sub-tab", type: "subflow:outer", wires: [] },
    ].map((node) => (node.id === "/sub-function" ? { ...node, wires: [["/sub-out", "instance"]] } : node));
    const from = await run(flows);
    await runtime.get("/sub");
    const events = await observed.until((all) => {
      const found = all.slice(from);
      return (
        countErrors(found) > 0 && ofKind(found, "counts").some(({ nodeId, errors }) => nodeId === "deep" && errors > 0)
      );
    });
    const place = {
      nodeId: "deep",
      nodeType: "function",
      nodeName: "Deep",
      flowId: "/sub-tab",
      flowLabel: "/sub",
      subflowPath: ["instance", "nested"],
    };
    const found = events.slice(from);
    expect(ofKind(found, "error")).toMatchObject([{ ...place, message: "Error: deep", line: 1 }]);
    expect(ofKind(found, "status").filter(({ nodeId }) => nodeId === "deep")).toMatchObject([
      { ...place, text: "deep" },
    ]);
    expect(ofKind(found, "counts").findLast(({ nodeId }) => nodeId === "deep")).toMatchObject({
      ...place,
      messages: 1,
      errors: 1,
      warnings: 0,
    });
  });

  test("debug messages are reported while somebody wants them, as an editor has them", async () => {
    const code = `node.send([null, { payload: { a: [1, "x"] }, topic: "t" }])`;
    const flows = [...endpoint("/debug", code), { ...debug, z: "/debug-tab" }].map((node) =>
      node.id === "/debug-function" ? { ...node, outputs: 2, wires: [["/debug-out"], ["d"]] } : node,
    );
    const from = await run(flows);
    const received = (): number =>
      ofKind(observed.events.slice(from), "counts").findLast(({ nodeId }) => nodeId === "d")?.messages ?? 0;
    const send = async (): Promise<number> => {
      const before = received();
      await runtime.get("/debug");
      await observed.until(() => received() > before);
      return ofKind(observed.events.slice(from), "debug").length;
    };
    expect(await send()).toBe(0);
    observed.setDebug(true);
    while ((await send()) === 0) {}
    observed.setDebug(false);
    expect(ofKind(observed.events.slice(from), "debug")[0]).toEqual({
      kind: "debug",
      nodeId: "d",
      nodeType: "debug",
      nodeName: "show",
      flowId: "/debug-tab",
      flowLabel: "/debug",
      topic: "t",
      property: "payload",
      format: "Object",
      value: `{"a":[1,"x"]}`,
    });
  });

  test("repeated errors are counted, and those that are too many are told", async () => {
    const code = `for (let at = 0; at < 5000; at++) { node.error("same", {}); node.warn("warning " + at); }`;
    const from = await run(endpoint("/repeat", code));
    const batch = observed.batches.length;
    await runtime.get("/repeat");
    const dropped = (): number =>
      observed.batches.slice(batch).reduce((sum, each) => sum + (each.dropped?.error ?? 0), 0);
    const events = await observed.until((all) => countErrors(all.slice(from)) + dropped() >= 10_000);
    const same = ofKind(events.slice(from), "error").filter(({ message }) => message === "same");
    expect(same.reduce((sum, { count }) => sum + count, 0)).toBe(5_000);
    expect(same.length).toBeLessThan(10);
    expect(countErrors(events.slice(from)) + dropped()).toBe(10_000);
    expect(dropped()).toBeGreaterThan(1_000);
  });

  test("the errors of a node are reported before its stop, also those that repeat earlier ones", async () => {
    // Reports an error every few milliseconds until a deployment stops it.
    const repeat = functionNode("again", {
      z: "T",
      func: "",
      initialize: `context.timer = setInterval(() => node.error("same"), 3);`,
    });
    const from = await run([tab("T"), { ...repeat, finalize: "clearInterval(context.timer);" }]);
    await observed.until((all) => countErrors(all.slice(from)) > 1);
    const stopped = await run([tab("T"), functionNode("again", { z: "T", func: "node.done();" })]);
    const isOfNode = (event: NodeEvent): boolean => idOf(event) === "again";
    await observed.until((all) => ofKind(all.slice(stopped), "stopped").some(isOfNode));
    // A deployment ends with a report of what was held back, which comes before this.
    await run(endpoint("/last", `node.warn("last");`));
    await runtime.get("/last");
    await observed.until((all) => ofKind(all, "error").some(({ message }) => message === "last"));
    const events = observed.events.slice(from).filter(isOfNode);
    expect(events.slice(events.findIndex(({ kind }) => kind === "stopped"))).toMatchObject([{ kind: "stopped" }]);
  });

  test("the errors of nodes that replace many others are reported after the stops of those", async () => {
    const ids = Array.from({ length: 350 }, (_, at) => `n${at}`);
    const change = (id: string, name: string): FlowNode => ({
      ...onTab(id),
      type: "change",
      name,
      rules: [],
      wires: [[]],
    });
    const once = { ...onTab("i"), type: "inject", once: true, onceDelay: 0.1, props: [], wires: [ids] };
    const from = await run([tab("T"), once, ...ids.map((id) => change(id, "before"))]);
    const counted = (): number =>
      new Set(ofKind(observed.events.slice(from), "counts").map(({ nodeId }) => nodeId)).size;
    await observed.until(() => counted() > ids.length);
    // Among the first and the last, whichever order they are stopped in: more stops than one report contains.
    const failing = [...ids.slice(0, 30), ...ids.slice(-30)];
    const fail = (id: string): FlowNode => functionNode(id, { z: "T", initialize: `node.error("after");` });
    const stopped = await run([tab("T"), ...ids.map((id) => (failing.includes(id) ? fail(id) : change(id, "after")))]);
    const isOf = (kind: NodeEvent["kind"]) => (event: NodeEvent) => event.kind === kind && ids.includes(idOf(event));
    const events = (
      await observed.until((all) => all.slice(stopped).filter(isOf("error")).length === failing.length)
    ).slice(stopped);
    for (const id of failing) {
      const kinds = events.filter((event) => idOf(event) === id && event.kind !== "counts").map(({ kind }) => kind);
      expect([id, kinds]).toEqual([id, ["stopped", "error"]]);
    }
  });

  test("long texts are shortened, and marked", async () => {
    const code = `node.error("\\u0001".repeat(100000)); node.status("x".repeat(100000)); msg.payload = "";`;
    const from = await run(endpoint("/long", code));
    await runtime.get("/long");
    const events = await observed.until((all) => countErrors(all.slice(from)) > 0);
    const [error] = ofKind(events.slice(from), "error");
    expect(error).toMatchObject({ truncated: true });
    expect(error?.message.length).toBe(1_000);
    const status = ofKind(events.slice(from), "status").find(({ nodeId }) => nodeId === "/long-function");
    expect(status?.text?.length).toBe(1_000);
  });

  test("a node that is removed has no status, and its counts begin anew with its start", async () => {
    const flows = endpoint("/status", `node.status({ text: "on", fill: "green", shape: "dot" });`);
    const from = await run(flows);
    await runtime.get("/status");
    const isOfNode = (event: NodeEvent): boolean => idOf(event) === "/status-function";
    await observed.until((all) => ofKind(all.slice(from), "counts").some(isOfNode));
    const stopped = await run([]);
    const events = await observed.until((all) => ofKind(all.slice(stopped), "stopped").some(isOfNode));
    expect(ofKind(events.slice(from), "status").filter(isOfNode)).toMatchObject([
      { text: "on", fill: "green", shape: "dot" },
      {},
    ]);
    const again = await run(flows);
    await runtime.get("/status");
    const found = await observed.until((all) => ofKind(all.slice(again), "counts").some(isOfNode));
    expect(ofKind(found.slice(again), "counts").find(isOfNode)).toMatchObject({ messages: 1, errors: 0 });
  });

  test("what an editor alone has to know is not reported", () => {
    expect(observed.events.filter((event) => idOf(event) === "")).toEqual([]);
    expect(runtime.entries.filter(({ message }) => /unencrypted/i.test(message))).toEqual([]);
  });
});

describe("what modules publish for editors", () => {
  let observed: Observed;
  let runtime: OpenedRuntime;
  beforeAll(async () => {
    observed = observe();
    runtime = await runtimeUnderTest({ nodes: observed }, async (modulesDir) => {
      const source = new URL("../../../test/fixtures/e2e/node-red-contrib-say", import.meta.url);
      await cp(source, join(modulesDir, "node_modules", "node-red-contrib-say"), { recursive: true });
    });
    const code = `const { all, many = 0, long = 0 } = msg.req.query;
      msg.published = JSON.parse(all);
      for (let at = 0; at < many; at += 1) msg.published.push({ topic: "many/" + at, data: at });
      if (long > 0) msg.published.unshift({ topic: "long", data: "x".repeat(long) });
      return msg;`;
    const [tabNode, input, fn, output] = endpoint("/say", code);
    const node = { id: "say", type: "say", z: tabNode?.id, x: 1, y: 1, wires: [[output?.id]] };
    await runtime.apply(revision(1, [tabNode, input, { ...fn, wires: [["say"]] }, node, output] as FlowNode[]), "full");
  });
  afterAll(() => runtime?.[Symbol.asyncDispose]());

  const say = (all: readonly object[], more = "") =>
    runtime.get(`/say?all=${encodeURIComponent(JSON.stringify(all))}${more}`);
  const untilTopic = async (topic: string) =>
    ofKind(await observed.until((all) => ofKind(all, "editor").some((event) => event.topic === topic)), "editor");

  test("is reported while someone wants it, and if it is retained or replaces what is", async () => {
    const kept = { topic: "kept", data: { a: 1 }, retain: true };
    await say([{ topic: "unwanted", data: 1 }, kept, { topic: "kept", data: 2 }]);
    await untilTopic("kept");
    observed.setDebug(true);
    const notification = { event: { id: "own", payload: { text: "t" } } };
    await say([{ topic: "none" }, { topic: "deep/topic", data: ["<b>", null] }, notification]);
    expect(await untilTopic("notification/own")).toEqual([
      { kind: "editor", topic: "kept", json: `{"a":1}`, retained: true },
      { kind: "editor", topic: "kept", json: "2" },
      { kind: "editor", topic: "none", json: "null" },
      { kind: "editor", topic: "deep/topic", json: `["<b>",null]` },
      { kind: "editor", topic: "notification/own", json: `{"text":"t"}` },
    ]);
    observed.setDebug(false);
  });

  test("is counted if it is too long, or too much at once, and not reported under topics of the service", async () => {
    observed.setDebug(true);
    const from = observed.events.length;
    const dropped = (): number => observed.batches.reduce((sum, batch) => sum + (batch.dropped?.editor ?? 0), 0);
    const reserved = [
      "",
      "hb",
      "multiplayer/init",
      "event-log/x",
      "notification/runtime-deploy",
      "notification/node/added",
    ];
    await say([...reserved, "x".repeat(300)].map((topic) => ({ topic, data: 1, retain: true })));
    await say([], "&many=150");
    await observed.until(() => dropped() > 0);
    await say([{ topic: "last" }], "&long=49152");
    await untilTopic("last");
    await observed.until(() => ofKind(observed.events.slice(from), "editor").length + dropped() === 150 + 2);
    const topics = ofKind(observed.events.slice(from), "editor").map(({ topic }) => topic);
    expect(topics.filter((topic) => !/^(?:many\/\d+|last)$/.test(topic))).toEqual([]);
  });

  test("can name the port of HTTP-in nodes, as RED.settings has it", async () => {
    const { httpPort } = runtime.status();
    expect(JSON.parse(await say([]))).toEqual({ uiPort: httpPort, uiHost: "127.0.0.1" });
  });
});

test("the last events of a process that crashes are reported, and its end is", async () => {
  const observed = observe();
  await using runtime = await runtimeUnderTest({ nodes: observed });
  const code = `node.warn("before"); setTimeout(() => { ${escape} host.nextTick(() => { throw new Error("now"); }); }, 1);`;
  await runtime.apply(revision(1, endpoint("/crash", code)), "full");
  expect(observed.endCount()).toBe(0);
  await runtime.get("/crash").catch(() => {});
  await runtime.untilState("restarting");
  expect(ofKind(observed.events, "error")).toMatchObject([{ message: "before" }]);
  expect(observed.endCount()).toBe(1);
});

test("events that a flow forges are checked and shortened", async () => {
  const observed = observe();
  await using runtime = await runtimeUnderTest({ nodes: observed });
  const long = "x".repeat(20_000);
  const forged = {
    kind: "nodes",
    dropped: { error: -1, debug: 2 ** 50, status: 3 },
    events: [
      { kind: "error", nodeId: long, level: "error", message: long, stack: long, count: 1e300, line: "one" },
      { kind: "error", nodeId: "a", level: "loud", message: "" },
      { kind: "debug", nodeId: "a", value: { toString: 1 } },
      { kind: "counts", nodeId: "a", messages: -1, errors: 0.5, warnings: 2, lastMessageMs: "now" },
      { kind: "status", nodeId: "a", text: long, subflowPath: [1, "s"] },
      { kind: "status", nodeId: 1 },
      { kind: "more", nodeId: "a" },
      { kind: "editor", topic: "notification/runtime-deploy", json: "{}" },
      { kind: "editor", topic: "long", json: "x".repeat(50_000) },
      { kind: "editor", topic: 1, json: "1" },
      "text",
    ],
  };
  const code = `${escape} host.getBuiltinModule("fs").writeSync(${messageFd}, ${JSON.stringify(`${JSON.stringify(forged)}\n`)});`;
  await runtime.apply(revision(1, endpoint("/forge", code)), "full");
  void runtime.get("/forge").catch(() => {});
  const events = await observed.until((all) => all.some((event) => idOf(event) === "a"));
  const batch = observed.batches.find(({ events: all }) => all.some((event) => idOf(event) === "a"));
  expect(batch?.dropped).toEqual({ error: 0, debug: 2 ** 32 - 1, status: 3 });
  const name = "x".repeat(256);
  expect(batch?.events).toEqual([
    {
      kind: "error",
      nodeId: name,
      level: "error",
      message: "x".repeat(8192),
      stack: "x".repeat(8192),
      count: 1,
      line: 0,
    },
    { kind: "counts", nodeId: "a", messages: 0, errors: 0, warnings: 2, lastMessageMs: 0 },
    { kind: "status", nodeId: "a", text: "x".repeat(1000), subflowPath: ["s"] },
  ]);
  expect(events.length).toBeGreaterThan(0);
});
