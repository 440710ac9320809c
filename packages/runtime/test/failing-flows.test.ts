import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { FlowNode } from "@flowgate/flows";
import type { Revision } from "../src/revision.ts";
import { type OpenedRuntime, revision, runtimeUnderTest } from "./builders.ts";
import { block, endpoint, functionNode, installProbe, tab } from "./flow-builders.ts";

const good = endpoint("/hello", `msg.payload = "hello"`);
const starting = (initialize: string): FlowNode[] => [...good, tab("T"), functionNode("f", { z: "T", initialize })];

describe("a runtime", () => {
  let runtime: OpenedRuntime;
  let seq = 0;
  beforeAll(async () => {
    const options = { deadlineMs: 600_000, restart: { backoffMs: 60_000 }, maxOldSpaceMb: 96 };
    runtime = await runtimeUnderTest(options, installProbe);
  });
  afterAll(() => runtime[Symbol.asyncDispose]());

  function next(flows: readonly FlowNode[]): Revision {
    seq += 1;
    return revision(seq, flows);
  }

  test("replaces flows with an endless loop in On Start by the next deployment, before their deadline", async () => {
    await runtime.untilState("running");
    const looping = runtime.apply(next(starting(block)), "full");
    await runtime.apply(next(good), "nodes");
    expect(await runtime.get("/hello")).toBe("hello");
    await looping;
  });

  test("restarts after an endless loop in a message handler, and runs the next deployment", async () => {
    await runtime.apply(next(endpoint("/loop", block)), "full");
    await expect(runtime.get("/loop")).rejects.toThrow("fetch failed");
    await runtime.untilState("restarting");
    expect(runtime.status()).toMatchObject({
      message: expect.stringMatching(/^a flow blocked it/) as string,
      reason: "blocked",
    });
    await runtime.apply(next(good), "nodes");
    expect(await runtime.get("/hello")).toBe("hello");
  });

  test("restarts after an exception that a node throws from a timer", async () => {
    await runtime.apply(next([tab("T"), { id: "p", type: "probe-throw", z: "T", wires: [] }]), "full");
    expect(await runtime.untilLogged(/crashed: Error: thrown by a timer/)).toMatchObject({ level: "fatal" });
    await runtime.untilState("restarting");
    expect(runtime.status()).toMatchObject({ message: 'it crashed: "Error: thrown by a timer"', reason: "crashed" });
  });

  test("restarts after an unhandled rejection", async () => {
    await runtime.apply(next(starting(`void Promise.reject(new Error("unhandled"));`)), "full");
    await runtime.untilState("restarting");
    expect(runtime.status().message).toBe('it crashed: "Error: unhandled" (function f, flow "tab T", line 1)');
  });

  test("restarts after flows that exhaust the memory", async () => {
    await runtime.apply(next(good), "full");
    await runtime.apply(next(starting("const all = []; for (;;) all.push(new Array(1e5).fill({}));")), "nodes");
    expect(runtime.status()).toMatchObject({
      state: "restarting",
      // The function is known if it took a while.
      message: expect.stringMatching(/^it ran out of memory/) as string,
      reason: "out_of_memory",
    });
    await runtime.apply(next(good), "nodes");
    expect(await runtime.get("/hello")).toBe("hello");
  });
});

test("limits the log entries of a flow that logs in a loop", async () => {
  await using runtime = await runtimeUnderTest();
  await runtime.apply(revision(1, starting(`for (let i = 0; i < 20000; i += 1) node.warn("again");`)), "full");
  expect(await runtime.get("/hello")).toBe("hello");
  expect(runtime.entries.length).toBeLessThan(3_000);
});

test("runs the flows as soon as the port of HTTP-in nodes is free", async () => {
  const holder = createServer().listen(0, "127.0.0.1");
  await once(holder, "listening");
  const { port } = holder.address() as AddressInfo;
  await using runtime = await runtimeUnderTest({
    active: async () => revision(1, good),
    port,
    restart: { backoffMs: 1 },
    safeMode: { exits: 1 },
  });
  const message = `HTTP-in nodes can't listen on 127.0.0.1, port ${port} (runtime.port): EADDRINUSE`;
  await runtime.untilLogged(/EADDRINUSE/, 2);
  await runtime.untilState("restarting");
  expect(runtime.status().message).toBe(message);
  expect(runtime.entries.filter(({ level }) => level === "fatal")).toEqual([]);
  holder.close();
  await runtime.untilState("running");
  expect(await runtime.get("/hello")).toBe("hello");
});
