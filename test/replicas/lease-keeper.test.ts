import { pino } from "pino";
import { afterEach, expect, test, vi } from "vitest";
import { type LeaseKeeper, openLeaseKeeper } from "../../src/replicas/lease-keeper.ts";
import { msUntil } from "@flowgate/runtime";
import type { LeaseReply } from "../../src/store/cluster.ts";
import { createMemoryCluster, type Member } from "./memory-cluster.ts";
import { status } from "./statuses.ts";

const log = pino({ level: "silent" });

afterEach(() => void vi.useRealTimers());

function keeperOf(
  cluster: Pick<Member, "lease" | "onChange">,
  leaseMs = 300,
  yields: () => boolean = () => false,
): LeaseKeeper {
  return openLeaseKeeper({ cluster, leaseMs, yields, log });
}

/** Resolves when the keeper has a fence, or has none. */
async function untilHeld(keeper: LeaseKeeper, isHeld = true): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const check = (): void => {
    if ((keeper.fence() !== undefined) === isHeld) {
      resolve();
    }
  };
  using _ = keeper.onChange(check);
  check();
  await promise;
}

/** A lease that replies as `reply` says, which may reject. */
function scripted(member: Member, reply: (durationMs: number) => Promise<LeaseReply>): Member {
  return { ...member, lease: { ...member.lease, hold: reply } };
}

test("renews the lease, so that another replica does not get it", async () => {
  const cluster = createMemoryCluster();
  await using first = keeperOf(cluster.join());
  await untilHeld(first);
  await using second = keeperOf(cluster.join());
  const fence = first.fence();
  const renewed = Array.from({ length: 5 }, () => Promise.withResolvers<void>());
  let count = 0;
  using _ = fence?.onRenewed(() => renewed[count++]?.resolve());
  await Promise.all(renewed.map(({ promise }) => promise));
  expect(first.fence()).toBe(fence);
  expect(second.fence()).toBeUndefined();
});

test("passes the lease on at once when it is released, with a higher token", async () => {
  const cluster = createMemoryCluster();
  const first = keeperOf(cluster.join(), 60_000);
  await untilHeld(first);
  await using second = keeperOf(cluster.join(), 60_000);
  const token = first.fence()?.token ?? Infinity;
  await first[Symbol.asyncDispose]();
  await untilHeld(second);
  expect(second.fence()?.token).toBeGreaterThan(token);
});

test("loses a lease that it can't renew before another replica gets it", async () => {
  const cluster = createMemoryCluster();
  const member = cluster.join();
  let isConnected = true;
  await using first = keeperOf(
    scripted(member, async (durationMs) => {
      if (!isConnected) {
        throw new Error("the database can't be reached");
      }
      return member.lease.hold(durationMs);
    }),
  );
  await untilHeld(first);
  await using second = keeperOf(cluster.join());
  const events: string[] = [];
  using _ = first.onChange(() => events.push("first lost it"));
  using __ = second.onChange(() => {
    if (second.fence() !== undefined) {
      events.push("second got it");
    }
  });
  isConnected = false;
  await untilHeld(second);
  expect(events).toEqual(["first lost it", "second got it"]);
  isConnected = true;
  await second[Symbol.asyncDispose]();
  await untilHeld(first);
});

test("loses the lease while a renewal has no reply", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "hrtime", "performance"] });
  const member = createMemoryCluster().join();
  const { promise: reply, resolve } = Promise.withResolvers<LeaseReply>();
  let calls = 0;
  await using keeper = keeperOf(
    scripted(member, (durationMs) => (++calls === 2 ? reply : member.lease.hold(durationMs))),
  );
  await untilHeld(keeper);
  const fence = keeper.fence();
  while (keeper.fence() !== undefined) {
    await vi.advanceTimersToNextTimerAsync();
  }
  // Orderly: there is time left to stop flows.
  expect(fence && msUntil(fence.deadline())).toBeGreaterThan(0);
  resolve({ isHeld: true, token: 1 });
  await untilHeld(keeper);
  expect(keeper.fence()).not.toBe(fence);
});

test("has no time left when another replica holds the lease that it held", async () => {
  const member = createMemoryCluster().join();
  let calls = 0;
  await using keeper = keeperOf(
    scripted(member, async () => (++calls === 1 ? { isHeld: true, token: 1 } : { isHeld: false, forMs: 60_000 })),
  );
  await untilHeld(keeper);
  const fence = keeper.fence();
  await untilHeld(keeper, false);
  expect(fence && msUntil(fence.deadline())).toBeLessThanOrEqual(0);
});

test("begins anew when the token has changed", async () => {
  const member = createMemoryCluster().join();
  let calls = 0;
  await using keeper = keeperOf(scripted(member, async () => ({ isHeld: true, token: ++calls < 3 ? 1 : 2 })));
  await untilHeld(keeper);
  expect(keeper.fence()?.token).toBe(1);
  await untilHeld(keeper, false);
  expect(keeper.fence()?.token).toBe(2);
});

test("keeps the lease from other replicas until it is handed over, and takes it again when it need not yield", async () => {
  const cluster = createMemoryCluster();
  const member = cluster.join();
  let mustYield = false;
  await using first = keeperOf(member, 60_000, () => mustYield);
  await untilHeld(first);
  const second = keeperOf(cluster.join(), 60_000);
  const token = first.fence()?.token ?? Infinity;
  const order: string[] = [];
  using _ = second.onChange(() => {
    if (second.fence() !== undefined) {
      order.push("second got it");
    }
  });

  mustYield = true;
  member.report(status("first"));
  await untilHeld(first, false);
  await new Promise(setImmediate);
  order.push("the flows have stopped");
  await first.handOver();
  await untilHeld(second);
  expect(order).toEqual(["the flows have stopped", "second got it"]);
  expect(second.fence()?.token).toBe(token + 1);

  await second[Symbol.asyncDispose]();
  expect(first.fence()).toBeUndefined();
  mustYield = false;
  member.report(status("first"));
  await untilHeld(first);
});

test("does not release a lease that it holds again, nor one that is renewed at the same time", async () => {
  const member = createMemoryCluster().join();
  const { promise: reply, resolve } = Promise.withResolvers<LeaseReply>();
  const calls: string[] = [];
  let mustYield = false;
  const lease = {
    hold: (durationMs: number) => {
      calls.push("hold");
      return calls.length === 2 ? reply : member.lease.hold(durationMs);
    },
    async release() {
      calls.push("release");
      await member.lease.release();
    },
  };
  await using keeper = keeperOf({ ...member, lease }, 3_000, () => mustYield);
  await untilHeld(keeper);
  while (calls.length < 2) {
    await new Promise(setImmediate);
  }
  mustYield = true;
  member.report(status("only"));
  await untilHeld(keeper, false);
  const handedOver = keeper.handOver();
  mustYield = false;
  resolve({ isHeld: true, token: 1 });
  await handedOver;
  await untilHeld(keeper);
  expect(calls).toEqual(["hold", "hold"]);
});
