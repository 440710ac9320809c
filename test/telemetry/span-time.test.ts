import { expect, test, vi } from "vitest";
import { spanTime } from "../../src/telemetry/span-time.ts";

test("is Unix time, and never runs backwards between two readings", () => {
  const readings = Array.from({ length: 1000 }, () => spanTime(performance.now()));
  expect(readings).toEqual(readings.toSorted((one, other) => one - other));
  expect(Math.abs((readings[0] ?? 0) - Date.now())).toBeLessThan(200);
});

test("follows the system clock when that is set", () => {
  const setMs = Date.now() + 3_600_000;
  const clock = vi.spyOn(Date, "now").mockReturnValue(setMs);
  try {
    const [fromMs, time] = [performance.now(), spanTime(performance.now())];
    expect(time).toBeLessThanOrEqual(setMs + 1);
    expect(time).toBeGreaterThanOrEqual(setMs - 1 - (performance.now() - fromMs));
  } finally {
    clock.mockRestore();
  }
  expect(spanTime(performance.now())).toBeLessThanOrEqual(Date.now() + 1);
});
