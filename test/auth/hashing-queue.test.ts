import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { createHashingQueue } from "../../src/auth/hashing-queue.ts";

const createFullError = () => new Error("full");

test("runs tasks up to the concurrency limit, and the others in order", async () => {
  const queue = createHashingQueue({ concurrency: 2, maxQueued: 10, createFullError });
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
  const queue = createHashingQueue({ concurrency: 1, maxQueued: 1, createFullError });
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
  const queue = createHashingQueue({ concurrency: 1, maxQueued: 1, createFullError });
  const failed = queue.run(() => Promise.reject(new Error("broken")));
  const next = queue.run(async () => "next");
  await expect(failed).rejects.toThrow("broken");
  expect(await next).toBe("next");
});
