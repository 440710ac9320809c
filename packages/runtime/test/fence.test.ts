import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import type { FlowNode } from "@flowgate/flows";
import { createListeners } from "@flowgate/base/listeners";
import { type Fence, type Instant, addMs, msUntil, currentInstant } from "../src/fence.ts";
import { type OpenedRuntime, fixture, revision, runtimeUnderTest, untilExited } from "./builders.ts";
import { block, escape, functionNode, injectOnce, tab } from "./flow-builders.ts";

/** A fence whose deadline the test sets. */
function createFence(leftMs: number): Fence & { renew(leftMs: number): Instant } {
  const renewals = createListeners<Instant>();
  let deadline = addMs(currentInstant(), leftMs);
  return {
    token: 42,
    deadline: () => deadline,
    onRenewed: (listener) => renewals.add(listener),
    renew(leftMs) {
      deadline = addMs(currentInstant(), leftMs);
      renewals.notify(deadline);
      return deadline;
    },
  };
}

const longMs = 600_000;

/** Opens a runtime that the service does not kill or restart by itself. */
function runtimeWith(fence: Fence | undefined, flows: readonly FlowNode[]): Promise<OpenedRuntime> {
  const stored = revision(1, [tab("T"), ...flows]);
  return runtimeUnderTest({
    fence,
    active: async () => stored,
    unresponsiveMs: longMs,
    restart: { backoffMs: longMs },
  });
}

/** Writes the time to a file each time that it acts, from a timer of its own and for each message of an inject node. */
const acting = [
  functionNode("acts", {
    z: "T",
    func: `${escape} host.getBuiltinModule("fs").appendFileSync("acts", Number(host.hrtime.bigint()) / 1e6 + "\\n");`,
    initialize: `${escape} setInterval(() => host.getBuiltinModule("fs").appendFileSync("acts", Number(host.hrtime.bigint()) / 1e6 + "\\n"), 5);
      node.warn("pid " + host.pid);`,
  }),
  { ...injectOnce("in", "acts"), repeat: "0.005" },
];

async function readActs({ dataDir }: OpenedRuntime): Promise<number[]> {
  const text = await readFile(join(dataDir, "runtime", "acts"), "utf8");
  return text.trim().split("\n").map(Number);
}

/** Resolves when the flows have acted after the time. */
async function untilActed(runtime: OpenedRuntime, afterMs: number): Promise<true> {
  for (;;) {
    const acts = await readActs(runtime).catch(() => []);
    if (acts.some((ms) => ms > afterMs)) {
      return true;
    }
    await delay(10);
  }
}

async function pidOf(runtime: OpenedRuntime): Promise<number> {
  await runtime.untilLogged(/^pid \d+/);
  return runtime.processId() ?? 0;
}

async function untilPassed(deadline: Instant): Promise<void> {
  for (let leftMs = msUntil(deadline); leftMs > 0; leftMs = msUntil(deadline)) {
    await delay(leftMs);
  }
}

test.for([
  ["is idle", `node.warn("ready");`],
  ["blocks its event loop", `node.warn("ready"); setTimeout(() => { ${block} }, 50);`],
] as const)("a child that %s ends at its deadline, which renewals extend", async ([, initialize]) => {
  const start = currentInstant();
  const fence = createFence(1_500);
  const renewals = setInterval(() => fence.renew(1_500), 100);
  await using runtime = await runtimeWith(fence, [functionNode("f", { z: "T", initialize })]);
  await runtime.untilLogged(/^ready/);
  // Without renewals it would have ended by now.
  await untilPassed(addMs(start, 1_500));
  expect(runtime.status().state).not.toBe("restarting");
  clearInterval(renewals);
  await runtime.untilState("restarting");
  expect(runtime.status().message).toBe("it was ended by SIGKILL");
});

test("a child does not run flows if its deadline has passed when it starts", async () => {
  await using runtime = await runtimeWith(createFence(0), [
    functionNode("f", { z: "T", initialize: `node.warn("the flow runs");` }),
  ]);
  await runtime.untilState("restarting");
  expect(runtime.entries.map(({ message }) => message)).not.toContain("the flow runs");
});

test("a child that starts later than its first deadline reads the next one before it decides", async () => {
  const fence = createFence(1);
  await using runtime = await runtimeWith(fence, []);
  fence.renew(longMs);
  await runtime.untilState("running");
  expect(runtime.processStats().restarts).toBe(0);
});

test("flows do not act after the deadline when their process is resumed", async () => {
  // Deadlines only get later, and the child checks them with the last one in mind.
  const fence = createFence(3_000);
  const renewals = setInterval(() => fence.renew(3_000), 100);
  await using runtime = await runtimeWith(fence, acting);
  const pid = await pidOf(runtime);
  await untilActed(runtime, 0);
  clearInterval(renewals);
  process.kill(pid, "SIGSTOP");
  await untilPassed(fence.deadline());
  process.kill(pid, "SIGCONT");
  expect(await untilExited(pid)).toBe(true);
  const { monotonicMs } = fence.deadline();
  expect((await readActs(runtime)).filter((ms) => ms > monotonicMs)).toEqual([]);
});

test.for(["monotonicMs", "unixMs"] as const)(
  "a process that is resumed acts no more if its deadline has passed by %s",
  async (clock) => {
    const child = spawn(process.execPath, [fileURLToPath(fixture("fenced")), clock, "2000"], {
      stdio: ["ignore", "pipe", "inherit"],
      detached: true,
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const exit = once(child, "close") as Promise<[null, string]>;
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
    const read = async () => JSON.parse((await lines.next()).value as string) as Instant;
    const deadline = await read();
    await read();
    child.kill("SIGSTOP");
    await untilPassed(deadline);
    child.kill("SIGCONT");
    const [, signal] = await exit;
    expect(signal).toBe("SIGKILL");
    const acts: Instant[] = [];
    for await (const line of lines) {
      acts.push(JSON.parse(line) as Instant);
    }
    expect(acts.filter((act) => act[clock] > deadline[clock])).toEqual([]);
  },
);

test("flows without a deadline act when their process is resumed", async () => {
  await using runtime = await runtimeWith(undefined, acting);
  const pid = await pidOf(runtime);
  await untilActed(runtime, 0);
  process.kill(pid, "SIGSTOP");
  const { monotonicMs } = currentInstant();
  process.kill(pid, "SIGCONT");
  expect(await untilActed(runtime, monotonicMs)).toBe(true);
});

test("flows can read the fencing token", async () => {
  const initialize = `node.warn("token " + env.get("FLOWGATE_FENCING_TOKEN"));`;
  await using runtime = await runtimeWith(createFence(longMs), [functionNode("f", { z: "T", initialize })]);
  const { message } = await runtime.untilLogged(/^token/);
  expect(message).toBe("token 42");
});
