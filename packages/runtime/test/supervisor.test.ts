import { stat } from "node:fs/promises";
import { expect, test } from "vitest";
import type { FlowNode } from "@flowgate/flows";
import { credentials, fixture, revision, runtimeUnderTest, untilExited } from "./builders.ts";

const ready = fixture("ready");

function nodes(...types: string[]): FlowNode[] {
  return types.map((type, index) => ({ id: `${type}${index}`, type }));
}

test("runs the newest revision of the store after the start", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready, active: async () => revision(3, nodes("a")) });
  expect(runtime.status()).toMatchObject({ name: "node-red", version: "5.0.7", state: "starting", httpPort: 0 });
  await runtime.untilState("running");
  await runtime.untilLogged(/deploy full \[a0\]/);
  expect(runtime.status()).toMatchObject({ httpPort: 1, message: undefined });
});

test("creates the directories of files and modules with access for its owner only", async () => {
  // Another user, as whom flows run, can read modules.
  await using runtime = await runtimeUnderTest({ entry: ready, isolate: "off" });
  expect((await stat(`${runtime.dataDir}/runtime`)).mode & 0o777).toBe(0o700);
  expect((await stat(`${runtime.dataDir}/modules`)).mode & 0o777).toBe(0o700);
});

test("starts with the store's revision, even if it was not passed to apply", async () => {
  let stored = revision(1, nodes("a"));
  await using runtime = await runtimeUnderTest({ entry: ready, active: async () => stored });
  await runtime.untilState("running");
  stored = revision(3, nodes("b"));
  await runtime.apply(revision(2, nodes("crash")), "nodes");
  const { message } = await runtime.untilLogged(/deploy full \[b0\]/);
  expect(message).toBe("deploy full [b0] credentials [] changed []");
});

test("applies a deployment while the store can't be read", async () => {
  await using runtime = await runtimeUnderTest({
    entry: ready,
    active: async () => {
      throw new Error("disk failure");
    },
  });
  await runtime.untilLogged(/could not be read: disk failure/);
  await runtime.apply(revision(1, nodes("a")), "nodes");
  expect(runtime.status().state).toBe("running");
});

test("never replaces a revision by an older one, in whichever order deployments arrive", async () => {
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

test("reloads the revision that is already running", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready, freshProcess: "never" });
  await runtime.apply(revision(1, nodes("a")), "nodes");
  await runtime.apply(revision(1, nodes("a")), "reload");
  const { message } = await runtime.untilLogged(/deploy reload/);
  expect(message).toBe("deploy reload [a0] credentials [] changed []");
});

test("sends the ids of nodes with changed credentials, removed ones included", async () => {
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

test("compares credentials with the last deployment that the runtime did not reject", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready });
  await runtime.untilState("running");
  await runtime.apply(revision(1, nodes("rejected"), credentials({ a0: { key: "1" } })), "nodes");
  expect(runtime.status()).toMatchObject({ state: "failed", message: "rejected" });
  await runtime.apply(revision(2, nodes("a"), credentials({ a0: { key: "1" } })), "nodes");
  await runtime.untilLogged(/\[a0\] credentials \[a0\] changed \[a0\]/);
});

test("reports why the runtime can't start the flows, and runs the next deployment", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready });
  await runtime.apply(revision(1, nodes("missing")), "nodes");
  expect(runtime.status()).toMatchObject({ state: "failed", message: "missing node types: missing" });
  await runtime.apply(revision(2, nodes("a")), "nodes");
  expect(runtime.status()).toMatchObject({ state: "running", message: undefined });
});

test("resolves a deployment when the child crashes, before the deadline", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready, deadlineMs: 60_000, restart: { backoffMs: 60_000 } });
  await runtime.untilState("running");
  await runtime.apply(revision(1, nodes("crash")), "nodes");
  expect(runtime.status()).toMatchObject({ state: "restarting", message: "it exited with code 7" });
});

test("restarts immediately for a deployment that arrives during the backoff", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready, restart: { backoffMs: 60_000 } });
  await runtime.apply(revision(1, nodes("crash")), "nodes");
  await runtime.apply(revision(2, nodes("a")), "nodes");
  expect(runtime.status().state).toBe("running");
});

test("replaces a child that is blocked by a deployment when a newer one is waiting", async () => {
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
  const message = "the flows did not start in time";
  const result = await runtime.apply(revision(1, nodes("unfinished")), "nodes");
  expect(result).toMatchObject({ outcome: "failed", message });
  await runtime.untilState("restarting");
  expect(runtime.status().message).toBe(message);
});

test("replaces a child that is blocked while idle", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready, unresponsiveMs: 1_000, restart: { backoffMs: 60_000 } });
  await runtime.apply(revision(1, nodes("block-later")), "nodes");
  await runtime.untilState("restarting");
  expect(runtime.status().message).toBe("a flow blocked it");
});

test("replaces a blocked child that can't receive the next deployment", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready, deadlineMs: 60_000 });
  await runtime.apply(revision(1, nodes("block-later")), "nodes");
  await runtime.untilLogged(/blocks now/);
  await runtime.apply(revision(2, nodes("a")), "nodes");
  expect(runtime.status().state).toBe("running");
  await runtime.untilLogged(/deploy full \[a0\]/);
});

test("enters safe mode after consecutive crashes, until the next deployment", async () => {
  const crashing = revision(1, nodes("crash"));
  await using runtime = await runtimeUnderTest({
    entry: ready,
    active: async () => crashing,
    restart: { backoffMs: 1 },
    safeMode: { exits: 3 },
  });
  await runtime.untilState("safe");
  expect(runtime.entries.filter(({ message }) => message.startsWith("deploy"))).toHaveLength(3);
  expect(runtime.status()).toMatchObject({
    message:
      "it ended 3 times within 10 min, most recently because it exited with code 7; its flows are held back until the next deployment",
    reason: "safe_mode",
  });
  await runtime.apply(revision(2, nodes("a")), "nodes");
  expect(runtime.status()).toMatchObject({ state: "running", message: undefined, reason: undefined });
});

test("keeps restarting a child that crashes before it is ready", async () => {
  await using runtime = await runtimeUnderTest({
    entry: fixture("crash"),
    restart: { backoffMs: 1 },
    safeMode: { exits: 1 },
  });
  await runtime.untilLogged(/no port available/, 2);
  await runtime.untilLogged(/is restarting: it exited with code 3/, 2);
  expect(runtime.entries.filter(({ message }) => /times within/.test(message))).toEqual([]);
});

test("replaces a child that never becomes ready, and resolves deployments at their deadline", async () => {
  await using runtime = await runtimeUnderTest({
    entry: fixture("never-ready"),
    readyDeadlineMs: 4_000,
    deadlineMs: 500,
    restart: { backoffMs: 60_000 },
  });
  await runtime.apply(revision(1, nodes("a")), "nodes");
  expect(runtime.status().state).toBe("starting");
  await runtime.untilState("restarting");
  expect(runtime.status().message).toBe("it was not ready in time");
});

test("drops output beyond the budget", async () => {
  await using runtime = await runtimeUnderTest({ entry: ready, active: async () => revision(1, nodes("flood")) });
  await runtime.untilState("running");
  await runtime.untilLogged(/bytes of output were dropped/);
  const text = runtime.entries.map(({ message }) => message);
  expect(text.length).toBeLessThan(3_000);
  expect(Math.max(...text.map((line) => line.length))).toBeLessThanOrEqual(8192);
});

test("kill ends a child that is still stopping", async () => {
  const hour = 3_600_000;
  const limits = { nodeCloseTimeoutMs: hour, unresponsiveMs: hour };
  const runtime = await runtimeUnderTest({ entry: fixture("ignores-stop"), ...limits });
  await runtime.untilState("running");
  const pid = runtime.processId() ?? 0;
  const stopped = runtime[Symbol.asyncDispose]();
  runtime.kill();
  await stopped;
  expect(await untilExited(pid)).toBe(true);
});

test("kills a child that ignores the request to stop when it is disposed", async () => {
  const runtime = await runtimeUnderTest({ entry: fixture("ignores-stop"), nodeCloseTimeoutMs: 0 });
  await runtime.untilState("running");
  const pid = runtime.processId() ?? 0;
  await runtime[Symbol.asyncDispose]();
  expect(await untilExited(pid)).toBe(true);
  expect(runtime.status().state).toBe("stopped");
  expect(await runtime.apply(revision(9, []), "full")).toMatchObject({ outcome: "pending" });
});
