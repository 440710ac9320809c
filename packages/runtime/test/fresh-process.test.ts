import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { DeploymentType, FlowNode } from "@flowgate/flows";
import type { RuntimeOptions } from "../src/options.ts";
import { type OpenedRuntime, fixture, revision, runtimeUnderTest } from "./builders.ts";

const node = (type: string): FlowNode => ({ id: `${type}0`, type });

/** The entry of a process that gets time to stop. */
const stops = expect.objectContaining({ message: "stops" }) as unknown;

/** A runtime that runs revision 1. */
async function running(options: Partial<RuntimeOptions> = {}, type = "a"): Promise<OpenedRuntime> {
  const runtime = await runtimeUnderTest({ entry: fixture("ready"), ...options });
  await runtime.apply(revision(1, [node(type)]), "full");
  return runtime;
}

/** Whether a deployment of revision 2 starts in a new process. */
async function isRenewed(runtime: OpenedRuntime, type: DeploymentType): Promise<boolean> {
  const before = runtime.processId();
  expect(await runtime.apply(revision(2, [node("b")]), type)).toMatchObject({ outcome: "running" });
  expect(runtime.status()).toMatchObject({ state: "running", message: undefined });
  // It was neither a crash nor a reason for a delay.
  expect(runtime.processStats().restarts).toBe(0);
  expect(runtime.lastResult()).toMatchObject({ revision: { rev: "r2" } });
  return runtime.processId() !== before;
}

test.each([
  ["never", "full", false],
  ["full", "full", true],
  ["full", "reload", true],
  ["full", "nodes", false],
  ["full", "flows", false],
  ["always", "nodes", true],
] as const)(
  "with freshProcess %s, a deployment of type %s starts in a new process: %s",
  async (freshProcess, type, is) => {
    await using runtime = await running({ freshProcess });
    expect(await isRenewed(runtime, type)).toBe(is);
  },
);

test("by default, a deployment that restarts all nodes starts in a new process, unless no node has run in the current one", async () => {
  await using runtime = await runtimeUnderTest({ entry: fixture("ready") });
  await runtime.untilState("running");
  const empty = runtime.processId();
  await runtime.apply(revision(1, [node("a")]), "full");
  expect(runtime.processId()).toBe(empty);
  expect(await isRenewed(runtime, "full")).toBe(true);
});

test("the first deployment after the start of the process stays in it", async () => {
  await using runtime = await runtimeUnderTest({
    entry: fixture("ready"),
    freshProcess: "always",
    // In namespaces, the id of the process is known only when it has started.
    isolate: "off",
  });
  const before = runtime.processId();
  await runtime.apply(revision(1, [node("a")]), "full");
  expect(runtime.processId()).toBe(before);
});

test("a deployment after flows have blocked the event loop starts in a new process, even if they stopped blocking", async () => {
  await using runtime = await running({ unresponsiveMs: 4_000 }, "block-until-file");
  await runtime.untilLogged(/the next deployment starts in a new process: a flow blocked the event loop/);
  await writeFile(join(runtime.dataDir, "runtime", "unblock"), "");
  await runtime.untilLogged(/unblocked/);
  expect(await isRenewed(runtime, "nodes")).toBe(true);
});

test("so does one after flows that were killed because they blocked, and were started again", async () => {
  const stored = revision(1, [node("block-once")]);
  await using runtime = await runtimeUnderTest({
    entry: fixture("ready"),
    active: async () => stored,
    unresponsiveMs: 2_000,
  });
  await runtime.untilLogged(/the flow runtime is restarting: a flow blocked it/);
  await runtime.untilState("running");
  const before = runtime.processId();
  await runtime.apply(revision(2, [node("b")]), "nodes");
  const renewed = runtime.processId();
  expect(renewed).not.toBe(before);
  await runtime.apply(revision(3, [node("c")]), "nodes");
  expect(runtime.processId()).toBe(renewed);
});

test.each([
  ["flood", "a flow flooded the log"],
  ["log", "a flow flooded the log"],
  ["chatter", "a flow flooded the runtime's own channel"],
])("a deployment after flows of type %s starts in a new process", async (type, reason) => {
  await using runtime = await running({}, type);
  await runtime.untilLogged(new RegExp(`^the next deployment starts in a new process: ${reason}$`));
  expect(await isRenewed(runtime, "nodes")).toBe(true);
  await runtime.untilLogged(new RegExp(`^the flow runtime is starting: in a new process: ${reason}$`));
  const renewed = runtime.processId();
  await runtime.apply(revision(3, [node("c")]), "nodes");
  expect(runtime.processId()).toBe(renewed);
});

test("a restart on demand gives the flows time to stop", async () => {
  await using runtime = await running();
  await runtime.restart(revision(2, [node("b")]));
  expect(runtime.entries).toContainEqual(stops);
});

test("a process that does not stop is killed, without having failed", async () => {
  await using runtime = await running({
    entry: fixture("ignores-stop"),
    nodeCloseTimeoutMs: 0,
    freshProcess: "always",
  });
  expect(await isRenewed(runtime, "nodes")).toBe(true);
});

test("restarts the revision that runs already in a new process", async () => {
  await using runtime = await running();
  const before = runtime.processId();
  const states: string[] = [];
  runtime.onChange(() => states.push(runtime.status().state));
  expect(await runtime.restart(revision(1, [node("a")]))).toMatchObject({ outcome: "running" });
  expect(runtime.processId()).not.toBe(before);
  expect(states).toEqual(["starting", "running"]);
  expect(runtime.processStats().restarts).toBe(0);
});

test("a restart starts the flows in safe mode", async () => {
  const stored = revision(1, [node("crash-once")]);
  await using runtime = await runtimeUnderTest({
    entry: fixture("ready"),
    active: async () => stored,
    safeMode: { exits: 1 },
  });
  await runtime.untilState("safe");
  expect(await runtime.restart(stored)).toMatchObject({ outcome: "running" });
  expect(runtime.status().state).toBe("running");
});

test("a restart waits for a deployment in progress, and reports a failure", async () => {
  await using runtime = await running();
  const deployment = runtime.apply(revision(2, [node("b")]), "nodes");
  const missing = revision(3, [node("missing")]);
  const [, restarted] = await Promise.all([deployment, runtime.restart(missing)]);
  expect(restarted).toMatchObject({ outcome: "failed", message: "missing node types: missing" });
});
