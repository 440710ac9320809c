import { stat } from "node:fs/promises";
import { expect, test } from "vitest";
import type { FlowNode } from "../../src/flows/configuration.ts";
import { createBackOff } from "../../src/runtime/back-off.ts";
import { credentials, fixture, revision, runtimeUnderTest } from "./builders.ts";

const ready = fixture("ready");

function nodes(...types: string[]): FlowNode[] {
  return types.map((type, index) => ({ id: `${type}${index}`, type }));
}

test("runs the newest revision of the store, unasked", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready, active: async () => revision(3, nodes("a")) });
  expect(runtime.status()).toMatchObject({ name: "node-red", version: "5.0.7", state: "starting", httpPort: 0 });
  await runtime.untilState("running");
  await runtime.untilLogged(/deploy full \[a0\]/);
  expect(runtime.status()).toMatchObject({ httpPort: 1, message: undefined });
});

test("makes a directory for the runtime that only its owner can read", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready });
  expect((await stat(`${runtime.dataDir}/runtime`)).mode & 0o777).toBe(0o700);
  expect((await stat(`${runtime.dataDir}/runtime/package.json`)).isFile()).toBe(true);
});

test("starts with what the store has, even where a deployment never reached it", async () => {
  let stored = revision(1, nodes("a"));
  await using runtime = await runtimeUnderTest({ entry: ready, active: async () => stored });
  await runtime.untilState("running");
  stored = revision(3, nodes("b"));
  await runtime.apply(revision(2, nodes("crash")), "nodes");
  const { message } = await runtime.untilLogged(/deploy full \[b0\]/);
  expect(message).toBe("deploy full [b0] credentials [] changed []");
});

test("takes a deployment at once though the store can't be read", async () => {
  await using runtime = await runtimeUnderTest({
    entry: ready,
    active: async () => {
      throw new Error("disk on fire");
    },
  });
  await runtime.untilLogged(/could not be read: disk on fire/);
  await runtime.apply(revision(1, nodes("a")), "nodes");
  expect(runtime.status().state).toBe("running");
});

test("goes forward only, in whichever order deployments arrive", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready });
  await runtime.untilState("running");
  await Promise.all([
    runtime.apply(revision(1, nodes("a")), "nodes"),
    runtime.apply(revision(3, nodes("c")), "nodes"),
    runtime.apply(revision(2, nodes("b")), "flows"),
  ]);
  await runtime.apply(revision(2, nodes("b")), "nodes");
  const deployments = runtime.entries.filter(({ message }) => message.startsWith("deploy"));
  expect(deployments.map(({ message }) => message.slice(0, 20))).toEqual([
    "deploy full [] crede",
    "deploy nodes [a0] cr",
    "deploy flows [c0] cr",
  ]);
});

test("reloads the revision that it runs already", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready });
  await runtime.apply(revision(1, nodes("a")), "nodes");
  await runtime.apply(revision(1, nodes("a")), "reload");
  const { message } = await runtime.untilLogged(/deploy reload/);
  expect(message).toBe("deploy reload [a0] credentials [] changed []");
});

test("says which nodes have other credentials than before, removed ones too", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready });
  await runtime.untilState("running");
  const flows = nodes("a", "b", "c");
  await runtime.apply(revision(1, flows, credentials({ a0: { key: "1" }, b1: { key: "1" } })), "nodes");
  await runtime.apply(revision(2, flows, credentials({ b1: { key: "1" }, c2: { key: "1" } })), "nodes");
  const deployments = runtime.entries.filter(({ message }) => message.startsWith("deploy nodes"));
  expect(deployments.map(({ message }) => message)).toEqual([
    "deploy nodes [a0,b1,c2] credentials [a0,b1] changed [a0,b1]",
    "deploy nodes [a0,b1,c2] credentials [b1,c2] changed [a0,c2]",
  ]);
});

test("compares credentials with what the runtime took, not with what it refused", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready });
  await runtime.untilState("running");
  await runtime.apply(revision(1, nodes("refused"), credentials({ a0: { key: "1" } })), "nodes");
  expect(runtime.status()).toMatchObject({ state: "failed", message: "refused" });
  await runtime.apply(revision(2, nodes("a"), credentials({ a0: { key: "1" } })), "nodes");
  await runtime.untilLogged(/\[a0\] credentials \[a0\] changed \[a0\]/);
});

test("tells why the runtime can't start the flows, and recovers", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready });
  await runtime.apply(revision(1, nodes("missing")), "nodes");
  expect(runtime.status()).toMatchObject({ state: "failed", message: "missing node types: missing" });
  await runtime.apply(revision(2, nodes("a")), "nodes");
  expect(runtime.status()).toMatchObject({ state: "running", message: undefined });
});

test("resolves a deployment on which the child crashes, long before its deadline", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready, deadlineMs: 60_000, restart: { backoffMs: 60_000 } });
  await runtime.untilState("running");
  await runtime.apply(revision(1, nodes("crash")), "nodes");
  expect(runtime.status()).toMatchObject({ state: "restarting", message: "it exited with code 7" });
});

test("starts at once with a deployment that arrives while a restart is due", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready, restart: { backoffMs: 60_000 } });
  await runtime.apply(revision(1, nodes("crash")), "nodes");
  await runtime.apply(revision(2, nodes("a")), "nodes");
  expect(runtime.status().state).toBe("running");
});

test("replaces a child that blocks on a deployment as soon as a newer one waits", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready, deadlineMs: 60_000 });
  await runtime.untilState("running");
  const blocked = runtime.apply(revision(1, nodes("block")), "nodes");
  await runtime.untilLogged(/deploy nodes \[block0\]/);
  await Promise.all([blocked, runtime.apply(revision(2, nodes("a")), "nodes")]);
  expect(runtime.status().state).toBe("running");
  await runtime.untilLogged(/deploy full \[a0\]/);
});

test("replaces a child that does not finish a deployment by the deadline", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready, deadlineMs: 1_000, restart: { backoffMs: 60_000 } });
  await runtime.untilState("running");
  await runtime.apply(revision(1, nodes("unfinished")), "nodes");
  await runtime.untilState("restarting");
  expect(runtime.status().message).toBe("the flows did not start in time");
});

test("replaces a child that blocks while it is idle", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready, unresponsiveMs: 1_000, restart: { backoffMs: 60_000 } });
  await runtime.apply(revision(1, nodes("block-later")), "nodes");
  await runtime.untilState("restarting");
  expect(runtime.status().message).toBe("a flow blocked it");
});

test("replaces a blocked child for a deployment that it can't even receive", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready, deadlineMs: 60_000 });
  await runtime.apply(revision(1, nodes("block-later")), "nodes");
  await runtime.untilLogged(/blocks now/);
  await runtime.apply(revision(2, nodes("a")), "nodes");
  expect(runtime.status().state).toBe("running");
  await runtime.untilLogged(/deploy full \[a0\]/);
});

test("holds the flows back after a row of crashes, until the next deployment", async () => {
  const crashing = revision(1, nodes("crash"));
  await using runtime = await runtimeUnderTest({
    entry: ready,
    active: async () => crashing,
    restart: { backoffMs: 1, safeModeAfter: 3 },
  });
  await runtime.untilState("safe");
  expect(runtime.entries.filter(({ message }) => message.startsWith("deploy"))).toHaveLength(3);
  expect(runtime.status().message).toBe(
    "it ended 3 times in a row, at last because it exited with code 7; its flows are held back until the next deployment",
  );
  await runtime.apply(revision(2, nodes("a")), "nodes");
  expect(runtime.status()).toMatchObject({ state: "running", message: undefined });
});

test("holds the flows back too where the child that shall do so does not come up at first", async () => {
  const limits = { backoffMs: 1, shortLifeMs: 1_000, maxBackoffMs: 1, safeModeAfter: 2 };
  const backOff = createBackOff(limits);
  const died = (hadFlows: boolean, ranMs = 0) => backOff.died({ ranMs, hadFlows }).isCrashLoop;
  expect([died(false), died(false), died(true), died(false), died(true), died(false)]).toEqual([
    false,
    false,
    false,
    false,
    true,
    true,
  ]);
  expect(died(true, 1_000)).toBe(false);
});

test("goes on trying with a child that crashes before it is ready", async () => {
  await using runtime = await runtimeUnderTest({
    entry: fixture("crash"),
    restart: { backoffMs: 1, safeModeAfter: 1 },
  });
  await runtime.untilLogged(/no port for you/, 2);
  await runtime.untilLogged(/is restarting: it exited with code 3/, 2);
  expect(runtime.entries.filter(({ message }) => /in a row/.test(message))).toEqual([]);
});

test("replaces a child that never gets ready, and lets no deployment wait beyond its deadline", async () => {
  await using runtime = await runtimeUnderTest({
    entry: fixture("never-ready"),
    bootDeadlineMs: 2_000,
    deadlineMs: 500,
    restart: { backoffMs: 60_000 },
  });
  await runtime.apply(revision(1, nodes("a")), "nodes");
  expect(runtime.status().state).toBe("starting");
  await runtime.untilState("restarting");
  expect(runtime.status().message).toBe("it was not ready in time");
});

test("keeps of a flood of output what can be read", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready, active: async () => revision(1, nodes("flood")) });
  await runtime.untilState("running");
  await runtime.untilLogged(/bytes of output were dropped/);
  const text = runtime.entries.map(({ message }) => message);
  expect(text.length).toBeLessThan(3_000);
  expect(Math.max(...text.map((line) => line.length))).toBeLessThanOrEqual(8192);
});

test("ends a child that takes its time to stop, when it is told to", async () => {
  const hour = 3_600_000;
  const patience = { nodeCloseTimeoutMs: hour, unresponsiveMs: hour };
  const runtime = await runtimeUnderTest({ entry: fixture("ignores-stop"), ...patience });
  await runtime.untilState("running");
  const pid = runtime.status().httpPort;
  const stopped = runtime[Symbol.asyncDispose]();
  runtime.kill();
  await stopped;
  expect(() => process.kill(pid, 0)).toThrow("ESRCH");
});

test("leaves no process behind when it is disposed of, though the child ignores it", async () => {
  const runtime = await runtimeUnderTest({ entry: fixture("ignores-stop"), nodeCloseTimeoutMs: 0 });
  await runtime.untilState("running");
  const pid = runtime.status().httpPort;
  await runtime[Symbol.asyncDispose]();
  expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  expect(runtime.status().state).toBe("stopped");
  await runtime.apply(revision(9, []), "full");
});
