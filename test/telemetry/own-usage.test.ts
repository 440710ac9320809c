import { expect, test, vi } from "vitest";
import { OwnUsage, readDiskSpace } from "../../src/telemetry/own-usage.ts";
import { onLinux } from "../needs.ts";

test("the process is measured while somebody asks, at most once per second", () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  try {
    using usage = new OwnUsage();
    const first = usage.process();
    expect(first).toMatchObject({ seconds: 0 });
    expect(first.heapBytes).toBeGreaterThan(0);
    expect(first.heapLimitBytes).toBeGreaterThan(first.heapBytes);
    expect(first.rssBytes).toBeGreaterThan(0);
    vi.advanceTimersByTime(999);
    expect(usage.process()).toBe(first);
    vi.advanceTimersByTime(4_001);
    expect(usage.process()).toMatchObject({ seconds: 5 });
    vi.advanceTimersByTime(60_000);
    expect(usage.process(), "begins again").toMatchObject({ seconds: 0 });
  } finally {
    vi.useRealTimers();
  }
});

test("the space of a disk without blocks is unknown", onLinux, async () => {
  expect(await readDiskSpace("/proc")).toBeUndefined();
});

test("the space of the disk is unknown where there is no directory", async () => {
  const { freeBytes, totalBytes } = (await readDiskSpace(import.meta.dirname)) ?? { freeBytes: 0, totalBytes: 0 };
  expect(totalBytes).toBeGreaterThan(0);
  expect(freeBytes).toBeLessThanOrEqual(totalBytes);
  expect(await readDiskSpace(`${import.meta.dirname}/missing`)).toBeUndefined();
});
