import { expect, test } from "vitest";
import type { FlowNode } from "@flowgate/flows";
import { Redactor, compileValues } from "../../../src/events/redaction/redactor.ts";
import { cutText } from "../src/node-events.ts";
import { noRedaction } from "../src/redaction.ts";
import { describeFault, parseFault } from "../src/fault.ts";
import { watchFd } from "../src/messages.ts";
import type { RuntimeOptions } from "../src/options.ts";
import type { RuntimeStatus } from "../src/runtime.ts";
import { type OpenedRuntime, revision, runtimeUnderTest } from "./builders.ts";
import { block, endpoint, escape, installProbe, onTab } from "./flow-builders.ts";

/** A tab on which GET /go runs the code of a function node with a name. */
function named(code: string): FlowNode[] {
  return endpoint("/go", code).map((node) => (node.type === "function" ? { ...node, name: "Worker [1]" } : node));
}

/** The status after GET /go has ended the process. */
async function statusAfter(
  flows: readonly FlowNode[],
  options: Partial<RuntimeOptions> = {},
  prepare?: (modulesDir: string) => Promise<void>,
): Promise<RuntimeStatus> {
  // It is not started again before its status is read.
  const restart = { backoffMs: 600_000, maxBackoffMs: 600_000 };
  await using runtime = await runtimeUnderTest({ restart, ...options }, prepare);
  await runtime.apply(revision(1, flows), "full");
  await send(runtime);
  await runtime.untilState("restarting");
  return runtime.status();
}

async function send(runtime: OpenedRuntime): Promise<void> {
  await runtime.get("/go").catch(() => {});
}

const place = {
  nodeId: "/go-function",
  nodeType: "function",
  nodeName: "Worker [1]",
  flowId: "/go-tab",
  flowLabel: "/go",
};
const text = `function "Worker [1]" (/go-function), flow "/go"`;

test.each([
  ["its code", `msg.payload = 1;\nfor (;;) { msg.payload += 1; }`, 2],
  ["a function that it calls", `const f = () => {\n  ${block}\n};\nf();`, 2],
  ["a timer", `setTimeout(() => {\n\n  ${block} }, 100);`, 3],
  ["a regular expression", `\n\n/^(a+)+$/.test("a".repeat(60) + "b");`, 3],
])("a function node that blocks the event loop in %s is named with the line", async (_, code, line) => {
  expect(await statusAfter(named(code))).toMatchObject({
    reason: "blocked",
    message: `a flow blocked it (${text}, line ${line})`,
    fault: { node: place, line, isCertain: true },
  });
});

test("nodes are named in a process that has had as many others as can be named", async () => {
  const restart = { backoffMs: 600_000, maxBackoffMs: 600_000 };
  await using runtime = await runtimeUnderTest({ restart, freshProcess: "never" });
  const off: FlowNode = { id: "off", type: "tab", label: "off", disabled: true };
  const others = Array.from({ length: 4_096 }, (_, at) => ({ ...onTab(`other${at}`), z: "off", type: "function" }));
  await runtime.apply(revision(1, [off, ...others]), "full");
  await runtime.apply(revision(2, [off]), "full");
  const first = runtime.processId();
  await runtime.apply(revision(3, named(block)), "full");
  expect(runtime.processId()).toBe(first);
  await send(runtime);
  await runtime.untilState("restarting");
  expect(runtime.status()).toMatchObject({ fault: { node: place, line: 1, isCertain: true } });
});

test("of another node that blocks the event loop, the last message is known", async () => {
  const flows = [
    ...endpoint("/go", `node.send(msg); return;`),
    { ...onTab("s"), z: "/go-tab", type: "probe-block", name: "Match", wires: [] },
  ].map((node) => (node.type === "function" ? { ...node, wires: [["s"]] } : node));
  expect(await statusAfter(flows, {}, installProbe)).toMatchObject({
    message: `a flow blocked it (the last active node was probe-block "Match" (s), flow "/go")`,
    fault: { node: { nodeId: "s", flowId: "/go-tab" }, isCertain: false },
  });
});

test("a function node that throws an error outside of a message is named", async () => {
  const code = `\nhostLater(() => { throw new Error("now"); });`;
  const flows = named(`${escape} const hostLater = host.nextTick;${code}`);
  expect(await statusAfter(flows)).toMatchObject({
    reason: "crashed",
    message: `it crashed: "Error: now" (${text}, line 2)`,
    fault: { node: place, line: 2, column: 25, isCertain: true },
  });
});

test("values of credentials in an error and in the names of nodes are redacted", async () => {
  const redactor = new Redactor([compileValues(["tops3cret"])]);
  const redaction = { ...noRedaction, redact: redactor.redact.bind(redactor) };
  const code = `${escape} host.nextTick(() => { throw new Error("it is tops3cret"); });`;
  // Names are cut after 256 characters.
  const name = `${"x".repeat(250)}tops3cret`;
  const restart = { backoffMs: 600_000, maxBackoffMs: 600_000 };
  await using runtime = await runtimeUnderTest({ restart, redaction });
  const failing = { name: "a tops3cret", initialize: `node.error("no");` };
  const withNode = (flows: readonly FlowNode[], properties: object) =>
    flows.map((node) => (node.type === "function" ? { ...node, ...properties } : node));
  expect(await runtime.apply(revision(1, withNode(named(""), failing)), "nodes")).toMatchObject({
    outcome: "degraded",
    message: `nodes logged errors while they were started: function "a [redacted]" (/go-function)`,
  });
  await runtime.apply(revision(2, withNode(named(code), { name })), "nodes");
  await send(runtime);
  await runtime.untilState("restarting");
  expect(runtime.status().message).toBe(
    `it crashed: "Error: it is [redacted]" (function "${"x".repeat(250)}[redacted]" (/go-function), flow "/go", line 1)`,
  );
  const log = runtime.entries.map(({ message }) => message);
  expect(log.filter((line) => line.includes("crashed"))).not.toEqual([]);
  expect(log.filter((line) => line.includes("tops3cret"))).toEqual([]);
});

test("a node that uses up the memory is named", async () => {
  // For as long as the watchdog takes to notice which node is active.
  const code = `const [all, cell] = [[], new Int32Array(new SharedArrayBuffer(4))];
    for (;;) { all.push(new Array(20_000).fill(msg)); Atomics.wait(cell, 0, 0, 2); }`;
  const { reason, fault, message } = await statusAfter(named(code), { maxOldSpaceMb: 96, unresponsiveMs: 60_000 });
  expect({ reason, node: fault?.node }).toEqual({ reason: "out_of_memory", node: place });
  expect(message).toContain(text);
});

test("safe mode names the node that has led to it", async () => {
  await using runtime = await runtimeUnderTest({ restart: { backoffMs: 1 }, safeMode: { exits: 1 } });
  await runtime.apply(revision(1, named(block)), "full");
  await send(runtime);
  await runtime.untilState("safe");
  expect(runtime.status()).toMatchObject({
    message: expect.stringContaining(`(${text}, line 1)`) as string,
    fault: { node: place },
  });
});

test("what a flow writes in place of the watchdog is checked", async () => {
  const forged = { node: { nodeId: `x"\n${"x".repeat(1_000)}`, nodeName: "not\nthis" }, line: -1, isCertain: true };
  const lines = ["no JSON", "{}", JSON.stringify(forged), "x".repeat(100_000)].join("\n");
  const code = `${escape} const { writeSync } = host.getBuiltinModule("fs");
    for (let rest = Buffer.from(${JSON.stringify(`${lines}\n`)}); rest.length > 0;) {
      try { rest = rest.subarray(writeSync(${watchFd}, rest)); } catch (error) { if (error.code !== "EAGAIN") throw error; }
    }
    host._kill(host.pid, 6);`;
  const { message, state } = await statusAfter(named(code));
  expect(state).toBe("restarting");
  expect(message).toBe("it was ended by SIGABRT");
  const fault = parseFault(forged, cutText);
  expect(fault?.node.nodeId).toHaveLength(256);
  expect(fault && describeFault(fault)).toMatch(/^node "not\\nthis" \("x\\"\\nx+"\)$/);
});
