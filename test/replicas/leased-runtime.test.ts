import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pino } from "pino";
import { describe, expect, test } from "vitest";
import type { FlowNode } from "@flowgate/flows";
import { type LogEntry, type Runtime, type RuntimeState, openRuntime } from "@flowgate/runtime";
import { openLeaseKeeper } from "../../src/replicas/lease-keeper.ts";
import { openLeasedRuntime } from "../../src/replicas/leased-runtime.ts";
import { reportReplica, selfHandsOver } from "../../src/replicas/runs.ts";
import { type Folder, createFolder } from "../store/builders.ts";
import { fixture } from "../../packages/runtime/test/builders.ts";
import { revision } from "../store/revision.ts";
import { createDesiredState } from "../../packages/runtime/test/desired-state.ts";
import { type Member, createMemoryCluster } from "./memory-cluster.ts";

const log = pino({ level: "silent" });
const flows: FlowNode[] = [{ id: "a", type: "a" }];

type ReplicaSettings = { cluster: Member; leaseMs?: number; entry?: string; active?: FlowNode[] };

/** A replica whose runtime is a fixture; `name` is its directory. */
function openReplica(
  folder: Folder,
  name: string,
  { cluster, leaseMs = 300, entry = "ready", active = flows }: ReplicaSettings,
): { runtime: Runtime; entries: LogEntry[] } {
  const entries: LogEntry[] = [];
  const record = (logged: LogEntry): void => void entries.push(logged);
  const runtime = openLeasedRuntime({
    keeper: openLeaseKeeper({ cluster, leaseMs, yields: () => selfHandsOver(cluster.replicas(), 1), log }),
    open: (fence) =>
      openRuntime({
        fence,
        active: async () => revision(1, active),
        dir: `${folder.path}/${name}`,
        host: "127.0.0.1",
        port: 0,
        nodeCloseTimeoutMs: 600_000,
        unresponsiveMs: 600_000,
        entry: fixture(entry),
        log: record,
      }),
    log: record,
  });
  return { runtime, entries };
}

async function untilState(runtime: Runtime, state: RuntimeState): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const check = (): void => {
    if (runtime.status().state === state) {
      resolve();
    }
  };
  using _ = runtime.onChange(check);
  check();
  await promise;
}

test("the flows run on one replica, and on another one when it stops", async () => {
  await using folder = await createFolder();
  const cluster = createMemoryCluster();
  const first = openReplica(folder, "first", { cluster: cluster.join(), leaseMs: 60_000 });
  expect(first.runtime.status()).toMatchObject({ name: "node-red", state: "starting", httpPort: 0 });
  await untilState(first.runtime, "running");

  const second = openReplica(folder, "second", { cluster: cluster.join(), leaseMs: 60_000 });
  await untilState(second.runtime, "standby");
  expect(await second.runtime.apply(revision(2, flows), "full")).toMatchObject({ outcome: "pending" });
  expect(second.runtime.lastResult()).toBeUndefined();
  expect(second.entries.filter(({ message }) => message.startsWith("deploy"))).toEqual([]);

  const results: string[] = [];
  second.runtime.onResult(({ revision: { rev }, result }) => results.push(`${rev} ${result.outcome}`));
  await first.runtime[Symbol.asyncDispose]();
  expect(first.runtime.status().state).toBe("stopped");
  await untilState(second.runtime, "running");
  expect(results).toEqual(["r1 running"]);
  await second.runtime[Symbol.asyncDispose]();
});

test("a replica that loses the lease stops its flows, also if they do not stop by themselves, and starts them again", async () => {
  await using folder = await createFolder();
  const cluster = createMemoryCluster();
  const member = cluster.join();
  let isConnected = true;
  const { runtime } = openReplica(folder, "only", {
    entry: "ignores-stop",
    cluster: {
      ...member,
      lease: {
        ...member.lease,
        async hold(durationMs) {
          if (!isConnected) {
            throw new Error("the database can't be reached");
          }
          return member.lease.hold(durationMs);
        },
      },
    },
  });
  await untilState(runtime, "running");
  isConnected = false;
  await untilState(runtime, "standby");
  isConnected = true;
  await untilState(runtime, "running");
  expect(runtime.processStats().restarts).toBe(0);
  runtime.kill();
  await runtime[Symbol.asyncDispose]();
});

test("a replica that is about to stop does not take over", async () => {
  await using folder = await createFolder();
  const cluster = createMemoryCluster();
  const first = openReplica(folder, "first", { cluster: cluster.join(), leaseMs: 60_000 });
  await untilState(first.runtime, "running");
  const leaving = openReplica(folder, "leaving", { cluster: cluster.join(), leaseMs: 60_000 });
  await untilState(leaving.runtime, "standby");
  leaving.runtime.release();
  const third = openReplica(folder, "third", { cluster: cluster.join(), leaseMs: 60_000 });
  await untilState(third.runtime, "standby");
  await first.runtime[Symbol.asyncDispose]();
  await untilState(third.runtime, "running");
  expect(leaving.runtime.status().state).toBe("standby");
  await leaving.runtime[Symbol.asyncDispose]();
  await third.runtime[Symbol.asyncDispose]();
});

test("the replica with the lease restarts its process on demand", async () => {
  await using folder = await createFolder();
  const cluster = createMemoryCluster();
  const { runtime } = openReplica(folder, "first", { cluster: cluster.join(), leaseMs: 60_000 });
  await untilState(runtime, "running");
  const standby = openReplica(folder, "second", { cluster: cluster.join(), leaseMs: 60_000 });
  await untilState(standby.runtime, "standby");
  expect(await standby.runtime.restart(revision(1, flows))).toMatchObject({ outcome: "pending" });

  const pids = [runtime.processId()];
  expect(await runtime.restart(revision(1, flows))).toMatchObject({ outcome: "running" });
  pids.push(runtime.processId());
  expect(new Set(pids).size).toBe(2);
  await standby.runtime[Symbol.asyncDispose]();
  await runtime[Symbol.asyncDispose]();
});

describe("flows that need a node type", () => {
  const active: FlowNode[] = [{ id: "a", type: "needs-file" }];

  function openReporting(folder: Folder, name: string, cluster: Member): Runtime {
    const { runtime } = openReplica(folder, name, { cluster, leaseMs: 60_000, active });
    const store = { active: () => revision(1, active) };
    reportReplica({ name, version: "0", mode: "one", cluster, runtime, store, desired: createDesiredState() });
    return runtime;
  }

  async function install(folder: Folder, name: string): Promise<void> {
    await mkdir(join(folder.path, name), { recursive: true });
    await writeFile(join(folder.path, name, "installed"), "");
  }

  test("are handed over to a replica that may have it, after they have stopped", async () => {
    await using folder = await createFolder();
    const cluster = createMemoryCluster();
    await install(folder, "equipped");
    const member = cluster.join();
    let pidAtRelease: number | undefined;
    const release = async (): Promise<void> => {
      pidAtRelease = plain.processId();
      await member.lease.release();
    };
    const plain = openReporting(folder, "plain", { ...member, lease: { ...member.lease, release } });
    await untilState(plain, "failed");
    const pid = plain.processId();
    const equipped = openReporting(folder, "equipped", cluster.join());
    await untilState(equipped, "running");
    expect(plain.status()).toMatchObject({
      state: "standby",
      message:
        "only the replica that holds the lease runs the flows; here they could not be started: missing node types: needs-file",
    });
    expect(pid).toBeGreaterThan(0);
    expect(pidAtRelease).toBeUndefined();
    expect(isAlive(pid as number)).toBe(false);

    // Nothing is better than flows that do not start, but the message says why they do not.
    await equipped[Symbol.asyncDispose]();
    await untilState(plain, "failed");
    await plain[Symbol.asyncDispose]();
  });

  test("stay where they are if no replica has it, until what is missing may have been installed", async () => {
    await using folder = await createFolder();
    const cluster = createMemoryCluster();
    const changes: string[] = [];
    const openNamed = (name: string): Runtime => {
      const runtime = openReporting(folder, name, cluster.join());
      let last: string | undefined;
      runtime.onChange(() => {
        const { state } = runtime.status();
        if (state !== last && state !== "starting") {
          changes.push(`${name} ${state}`);
        }
        last = state;
      });
      return runtime;
    };
    const first = openNamed("first");
    await untilState(first, "failed");
    const second = openNamed("second");
    await untilState(second, "failed");
    await untilState(first, "standby");
    await first.apply(revision(1, active), "full");
    expect(changes.slice(-2)).toEqual(["first standby", "second failed"]);

    await install(folder, "first");
    await first.apply(revision(1, active), "reload");
    await untilState(first, "running");
    expect(second.status().state).toBe("standby");
    expect(changes.filter((change) => change.endsWith("failed"))).toEqual(["first failed", "second failed"]);
    await second[Symbol.asyncDispose]();
    await first[Symbol.asyncDispose]();
  });
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
