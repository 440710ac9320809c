import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { createFairQueue } from "../src/fair-queue.ts";

const createFullError = () => new Error("full");

test("runs tasks up to the concurrency limit, and the others in order", async () => {
  const queue = createFairQueue({ concurrency: 2, maxQueued: 10, createFullError });
  const started: number[] = [];
  const ends = Array.from({ length: 5 }, () => Promise.withResolvers<void>());
  const runs = ends.map(({ promise }, at) =>
    queue.run(async () => {
      started.push(at);
      await promise;
      return at;
    }),
  );
  await setImmediate();
  expect(started).toEqual([0, 1]);
  ends[1]?.resolve();
  await setImmediate();
  expect(started).toEqual([0, 1, 2]);
  for (const end of ends) {
    end.resolve();
  }
  expect(await Promise.all(runs)).toEqual([0, 1, 2, 3, 4]);
  expect(started).toEqual([0, 1, 2, 3, 4]);
});

test("rejects tasks when the queue is full, and accepts more when there is room again", async () => {
  const queue = createFairQueue({ concurrency: 1, maxQueued: 1, createFullError });
  const end = Promise.withResolvers<void>();
  const first = queue.run(() => end.promise);
  const second = queue.run(async () => "second");
  await expect(queue.run(async () => "third")).rejects.toThrow("full");
  end.resolve();
  await first;
  expect(await second).toBe("second");
  expect(await queue.run(async () => "fourth")).toBe("fourth");
});

test("continues after a task that fails", async () => {
  const queue = createFairQueue({ concurrency: 1, maxQueued: 1, createFullError });
  const failed = queue.run(() => Promise.reject(new Error("broken")));
  const next = queue.run(async () => "next");
  await expect(failed).rejects.toThrow("broken");
  expect(await next).toBe("next");
});

test("sources take turns, and none runs more tasks at once than it may", async () => {
  const queue = createFairQueue({ concurrency: 2, concurrencyPerSource: 1, maxQueued: 10, createFullError });
  const started: string[] = [];
  const ends = new Map<string, () => void>();
  const runs = ["a1", "a2", "a3", "b1", "c1", "b2"].map((name) =>
    queue.run(
      async () => {
        started.push(name);
        await new Promise<void>((resolve) => ends.set(name, resolve));
      },
      { source: name.charAt(0) },
    ),
  );
  await setImmediate();
  expect(started).toEqual(["a1", "b1"]);
  for (const [name, next] of [
    ["a1", "a2"],
    ["b1", "b2"],
    ["a2", "c1"],
    ["b2", "a3"],
  ] as const) {
    ends.get(name)?.();
    await setImmediate();
    expect(started.at(-1)).toBe(next);
  }
  for (const end of ends.values()) {
    end();
  }
  await Promise.all(runs);
});

test("a source whose share of the queue is full does not keep others out", async () => {
  const queue = createFairQueue({ concurrency: 1, maxQueued: 3, maxQueuedPerSource: 1, createFullError });
  const { promise, resolve } = Promise.withResolvers<void>();
  const run = (source: string) => queue.run(() => promise, { source });
  const runs = [run("a"), run("a")];
  await expect(run("a")).rejects.toThrow("full");
  runs.push(run("b"), run("c"));
  await expect(run("d")).rejects.toThrow("full");
  resolve();
  await Promise.all(runs);
});

test("a task whose signal is aborted leaves the queue, and is not run", async () => {
  const queue = createFairQueue({ concurrency: 1, maxQueued: 1, createFullError });
  const { promise, resolve } = Promise.withResolvers<void>();
  const client = new AbortController();
  const first = queue.run(() => promise);
  const abandoned = queue.run(async () => expect.unreachable(), { signal: client.signal });
  client.abort(new Error("gone"));
  await expect(abandoned).rejects.toThrow("gone");
  await expect(queue.run(async () => expect.unreachable(), { signal: client.signal })).rejects.toThrow("gone");
  const second = queue.run(async () => "second");
  resolve();
  await first;
  expect(await second).toBe("second");
});
