import { expect, test } from "vitest";
import { createRerun } from "../src/rerun.ts";

/** A task whose runs end when they are told to. */
function openTask() {
  const runs: PromiseWithResolvers<void>[] = [];
  const run = createRerun(() => {
    const begun = Promise.withResolvers<void>();
    runs.push(begun);
    return begun.promise;
  });
  return { runs, run };
}

test("calls during a run share one further run", async () => {
  const { runs, run } = openTask();
  const first = run();
  const others = [run(), run(), run()];
  expect(runs).toHaveLength(1);
  runs[0]?.resolve();
  await first;
  await expect.poll(() => runs.length).toBe(2);
  runs[1]?.resolve();
  await Promise.all(others);
  expect(runs).toHaveLength(2);
});

test("a call during the further run, or after the end of the last one, begins another run", async () => {
  const { runs, run } = openTask();
  const first = run();
  const second = run();
  runs[0]?.resolve();
  await first;
  await expect.poll(() => runs.length).toBe(2);
  const third = run();
  runs[1]?.resolve();
  await second;
  await expect.poll(() => runs.length).toBe(3);
  runs[2]?.resolve();
  await third;
  const fourth = run();
  expect(runs).toHaveLength(4);
  runs[3]?.resolve();
  await fourth;
});

test("a failure is that of the calls of its run, which the further run follows", async () => {
  const { runs, run } = openTask();
  const first = run();
  const second = run();
  runs[0]?.reject(new Error("failed"));
  await expect(first).rejects.toThrow("failed");
  await expect.poll(() => runs.length).toBe(2);
  runs[1]?.resolve();
  await expect(second).resolves.toBeUndefined();
});

test("a failure that no caller handles is reported, also if another run follows", async () => {
  const { runs, run } = openTask();
  const { promise, resolve } = Promise.withResolvers<unknown>();
  // Those of vitest would fail the run of the tests.
  const listeners = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection");
  process.once("unhandledRejection", resolve);
  try {
    void run();
    const second = run();
    runs[0]?.reject(new Error("failed"));
    expect(await promise).toMatchObject({ message: "failed" });
    runs[1]?.resolve();
    await second;
  } finally {
    listeners.forEach((listener) => process.on("unhandledRejection", listener));
  }
});
