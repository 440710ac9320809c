import { ROOT_CONTEXT, trace } from "@opentelemetry/api";
import { expect, test, vi } from "vitest";
import { formatTraceparent, readTraceparent, spanTime, traceIds } from "@flowgate/base/spans";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const spanId = "b7ad6b7169203331";

test.each([
  [`00-${traceId}-${spanId}-01`, `00-${traceId}-${spanId}-01`],
  [`00-${traceId}-${spanId}-00`, `00-${traceId}-${spanId}-00`],
  // Only the flag known in this version is kept.
  [`00-${traceId}-${spanId}-ff`, `00-${traceId}-${spanId}-01`],
  // A later version: its first fields are used.
  [`01-${traceId}-${spanId}-01`, `00-${traceId}-${spanId}-01`],
  [`cc-${traceId}-${spanId}-01-what-the-future-brings`, `00-${traceId}-${spanId}-01`],
])("reads %s", (header, written) => {
  const place = readTraceparent(ROOT_CONTEXT, header);
  expect(formatTraceparent(place)).toBe(written);
  expect(traceIds(place)).toEqual({ trace_id: traceId, span_id: spanId });
  expect(trace.getSpanContext(place)?.isRemote).toBe(true);
});

test.each([
  undefined,
  "",
  "hello",
  `00-${"0".repeat(32)}-${spanId}-01`,
  `00-${traceId}-${"0".repeat(16)}-01`,
  `00-${traceId.toUpperCase()}-${spanId}-01`,
  `00-${traceId}-${spanId}`,
  `00-${traceId}-${spanId}-1`,
  `00-${traceId}-${spanId}-01-more`,
  `00-${traceId}-${spanId}-01-`,
  `00-${traceId}0-${spanId}-01`,
  `00-${traceId}-${spanId}-01, 00-${traceId}-${spanId}-01`,
  `ff-${traceId}-${spanId}-01`,
  `0-${traceId}-${spanId}-01`,
  `01-${traceId}-${spanId}-01.more`,
  ` 00-${traceId}-${spanId}-01`,
  `00-${traceId}-${spanId}-01\n`,
  [`00-${traceId}-${spanId}-01`],
])("ignores the invalid header %j", (header) => {
  expect(readTraceparent(ROOT_CONTEXT, header)).toBe(ROOT_CONTEXT);
});

test("a valid tracestate is kept, an invalid one ignored", () => {
  const stateOf = (tracestate: unknown) =>
    trace
      .getSpanContext(readTraceparent(ROOT_CONTEXT, `00-${traceId}-${spanId}-01`, tracestate))
      ?.traceState?.serialize();
  expect(stateOf("vendor=1,other=2")).toBe("vendor=1,other=2");
  expect(stateOf("UPPER=1")).toBe("");
  expect(stateOf(undefined)).toBeUndefined();
});

test("there is no header and no log field outside of a trace", () => {
  expect(formatTraceparent(ROOT_CONTEXT)).toBeUndefined();
  expect(traceIds(ROOT_CONTEXT)).toEqual({});
});

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
