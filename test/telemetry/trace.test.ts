import { ROOT_CONTEXT, trace } from "@opentelemetry/api";
import { expect, test } from "vitest";
import { formatTraceparent, readTraceparent, traceIds } from "../../src/telemetry/trace.ts";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const spanId = "b7ad6b7169203331";

test.each([
  [`00-${traceId}-${spanId}-01`, `00-${traceId}-${spanId}-01`],
  [`00-${traceId}-${spanId}-00`, `00-${traceId}-${spanId}-00`],
  // Only the flag that this version knows is taken over.
  [`00-${traceId}-${spanId}-ff`, `00-${traceId}-${spanId}-01`],
  // A later version: its first fields count.
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
])("takes %j for no header at all", (header) => {
  expect(readTraceparent(ROOT_CONTEXT, header)).toBe(ROOT_CONTEXT);
});

test("a tracestate goes with it, and none that is not valid", () => {
  const stateOf = (tracestate: unknown) =>
    trace
      .getSpanContext(readTraceparent(ROOT_CONTEXT, `00-${traceId}-${spanId}-01`, tracestate))
      ?.traceState?.serialize();
  expect(stateOf("vendor=1,other=2")).toBe("vendor=1,other=2");
  expect(stateOf("UPPER=1")).toBe("");
  expect(stateOf(undefined)).toBeUndefined();
});

test("outside of any trace there is nothing to write or to log", () => {
  expect(formatTraceparent(ROOT_CONTEXT)).toBeUndefined();
  expect(traceIds(ROOT_CONTEXT)).toEqual({});
});
