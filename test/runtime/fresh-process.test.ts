import { readFile, writeFile } from "node:fs/promises";
import { constants, getPriority } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { DeploymentType, FlowNode } from "@flowgate/flows";
import type { RuntimeOptions } from "../../src/runtime/options.ts";
import { type OpenedRuntime, fixture, revision, runtimeUnderTest, untilExited } from "./builders.ts";
import { onLinux } from "../needs.ts";

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

test("a deployment after distrust starts in a new process, and the ones after it stay there", async () => {
  await using runtime = await running();
  runtime.distrust("it is a test");
  runtime.distrust("of distrust");
  await runtime.untilLogged(/^the next deployment starts in a new process: it is a test$/);
  expect(await isRenewed(runtime, "nodes")).toBe(true);
  await runtime.untilLogged(/^the flow runtime is starting: in a new process: it is a test$/);
  const renewed = runtime.processId();
  await runtime.apply(revision(3, [node("c")]), "nodes");
  expect(runtime.processId()).toBe(renewed);
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

test("flows that keep operators from the API get no time to stop, unlike those of a restart", async () => {
  await using runtime = await running();
  runtime.distrust("it is a test");
  expect(await isRenewed(runtime, "nodes")).toBe(true);
  expect(runtime.entries).not.toContainEqual(stops);
  await runtime.restart(revision(2, [node("b")]));
  expect(runtime.entries).toContainEqual(stops);
});

test("they have a lower priority until then than those after it", onLinux, async () => {
  await using runtime = await running();
  const priority = (): number => getPriority(runtime.processId());
  expect(priority()).toBe(getPriority());
  runtime.distrust("it is a test");
  expect(priority()).toBe(
    Math.min(getPriority() + constants.priority.PRIORITY_BELOW_NORMAL, constants.priority.PRIORITY_LOW),
  );
  expect(await isRenewed(runtime, "nodes")).toBe(true);
  expect(priority()).toBe(getPriority());
});

describe("the process of a deployment after distrust", onLinux, () => {
  /** The processes that are noted for the next start of the service. */
  const readProcesses = async ({ dataDir }: OpenedRuntime): Promise<number[]> =>
    (await readFile(join(dataDir, "runtime-process"), "latin1")).trim().split("\n").map(Number.parseFloat);

  /** A runtime that runs revision 1, and the process in which the next deployment starts. */
  async function distrusting(): Promise<{ runtime: OpenedRuntime; next: number }> {
    // In namespaces, the noted process is the one that has started that of the flows.
    const runtime = await running({ isolate: "off" });
    runtime.distrust("it is a test");
    runtime.distrust("it is a test");
    const [current, next = 0, ...others] = await readProcesses(runtime);
    expect([current, others]).toEqual([runtime.processId(), []]);
    return { runtime, next };
  }

  test("is created before it", async () => {
    const { runtime, next } = await distrusting();
    await using _ = runtime;
    await runtime.apply(revision(2, [node("b")]), "nodes");
    expect(runtime.processId()).toBe(next);
  });

  test("is another one if that has exited", async () => {
    const { runtime, next } = await distrusting();
    await using _ = runtime;
    const before = runtime.processId();
    process.kill(next, "SIGKILL");
    expect(await runtime.apply(revision(2, [node("b")]), "nodes")).toMatchObject({ outcome: "running" });
    expect([before, next]).not.toContain(runtime.processId());
  });

  test("ends with the runtime", async () => {
    const { runtime, next } = await distrusting();
    await runtime[Symbol.asyncDispose]();
    expect(await untilExited(next)).toBe(true);
  });
});

test.each([
  ["flood", "a flow flooded the log"],
  ["log", "a flow flooded the log"],
  ["chatter", "a flow flooded the runtime's own channel"],
])("a deployment after flows of type %s starts in a new process", async (type, reason) => {
  await using runtime = await running({}, type);
  await runtime.untilLogged(new RegExp(`the next deployment starts in a new process: ${reason}`));
  expect(await isRenewed(runtime, "nodes")).toBe(true);
});

test("a process that does not stop is killed, without having failed", async () => {
  await using runtime = await running({ entry: fixture("ignores-stop"), nodeCloseTimeoutMs: 0 });
  runtime.distrust("it is a test");
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
