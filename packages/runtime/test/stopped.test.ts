import { expect, test } from "vitest";
import type { FlowNode } from "@flowgate/flows";
import { fixture, revision, runtimeUnderTest, untilExited } from "./builders.ts";
import { createDesiredState } from "./desired-state.ts";

const entry = fixture("ready");

function nodes(...types: string[]): FlowNode[] {
  return types.map((type, index) => ({ id: `${type}${index}`, type }));
}

/** The deployments that children have received, without their credentials. */
function deployments({ entries }: { readonly entries: readonly { readonly message: string }[] }): string[] {
  return entries.flatMap(({ message }) => /^deploy \w+ \[.*?\]/.exec(message) ?? []);
}

test("flows that are stopped have no process, and start again with the newest revision", async () => {
  const desired = createDesiredState();
  await using runtime = await runtimeUnderTest({ entry, desired, active: async () => revision(1, nodes("a")) });
  await runtime.untilState("running");
  const pid = runtime.processId() ?? 0;
  desired.set(false);
  await runtime.untilState("stopped");
  expect(await untilExited(pid)).toBe(true);
  expect(runtime.processId()).toBeUndefined();
  expect(runtime.processStats().heartbeatAgeMs).toBe(0);
  expect(runtime.status()).toMatchObject({ message: "on request, until the flows are started", reason: undefined });
  expect(runtime.lastResult()).toBeUndefined();

  expect(await runtime.apply(revision(2, nodes("b")), "nodes")).toMatchObject({ outcome: "stopped" });
  expect(await runtime.restart(revision(2, nodes("b")))).toMatchObject({ outcome: "stopped" });
  expect(runtime.status().state).toBe("stopped");
  desired.set(true);
  expect(await runtime.apply(revision(2, nodes("b")), "nodes")).toMatchObject({ outcome: "running" });
  expect(deployments(runtime)).toEqual(["deploy full [a0]", "deploy full [b0]"]);
  expect(runtime.processStats().restarts).toBe(0);
});

test("flows that are stopped from the start are not started", async () => {
  const desired = createDesiredState(false);
  await using runtime = await runtimeUnderTest({ entry, desired, active: async () => revision(1, nodes("a")) });
  expect(runtime.status().state).toBe("stopped");
  expect(runtime.processId()).toBeUndefined();
  desired.set(true);
  await runtime.untilState("running");
  expect(deployments(runtime)).toEqual(["deploy full [a0]"]);
});

test("flows that are started while they stop run in a new process", async () => {
  const desired = createDesiredState();
  await using runtime = await runtimeUnderTest({ entry, desired, active: async () => revision(1, nodes("a")) });
  await runtime.untilState("running");
  const pid = runtime.processId() ?? 0;
  desired.set(false);
  desired.set(true);
  expect(await runtime.apply(revision(1, nodes("a")), "nodes")).toMatchObject({ outcome: "running" });
  expect(await untilExited(pid)).toBe(true);
  desired.set(false);
  desired.set(true);
  desired.set(false);
  await runtime.untilState("stopped");
  expect(runtime.processId()).toBeUndefined();
});

test("a process that does not stop is killed, and flows that were started meanwhile are not held responsible", async () => {
  const desired = createDesiredState();
  await using runtime = await runtimeUnderTest({ entry: fixture("ignores-stop"), desired, nodeCloseTimeoutMs: 0 });
  await runtime.untilState("running");
  const pid = runtime.processId() ?? 0;
  const outcomes: string[] = [];
  runtime.onResult(({ result }) => outcomes.push(result.outcome));
  desired.set(false);
  desired.set(true);
  await runtime.untilLogged(/the flow runtime is running/, 2);
  expect(await untilExited(pid)).toBe(true);
  expect(outcomes).toEqual(["running"]);
  expect(runtime.processStats().restarts).toBe(0);
});

test("callers who wait for a start learn that the flows are stopped", async () => {
  const desired = createDesiredState();
  await using runtime = await runtimeUnderTest({ entry, desired });
  await runtime.untilState("running");
  const first = runtime.apply(revision(1, nodes("unfinished")), "nodes");
  const second = runtime.apply(revision(2, nodes("b")), "full");
  await runtime.untilLogged(/deploy nodes \[unfinished0\]/);
  desired.set(false);
  expect([await first, await second]).toMatchObject([{ outcome: "stopped" }, { outcome: "stopped" }]);
  await runtime.untilState("stopped");
});

test("flows in safe mode, and those that wait for a restart, are stopped and start again", async () => {
  for (const exits of [1, 100]) {
    const desired = createDesiredState();
    await using runtime = await runtimeUnderTest({
      entry,
      desired,
      active: async () => revision(1, nodes("crash-once")),
      restart: { backoffMs: 600_000, maxBackoffMs: 600_000 },
      safeMode: { exits },
    });
    await runtime.untilLogged(/the flow runtime is restarting/);
    desired.set(false);
    await runtime.untilState("stopped");
    desired.set(true);
    await runtime.untilState("running");
    expect(deployments(runtime)).toEqual(["deploy full [crash-once0]", "deploy full [crash-once0]"]);
  }
});
