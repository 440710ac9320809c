/** W3C Trace Context, section 3.2.2. Versions later than 00 may have more than these four fields (section 4.3). */
const pattern = /^(?!ff)([\da-f]{2})-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(-.*)?$/;

export type Traceparent = { readonly traceId: string; readonly spanId: string; readonly isSampled: boolean };

/** Undefined if it is not valid. */
export function parseTraceparent(value: unknown): Traceparent | undefined {
  const match = typeof value === "string" ? pattern.exec(value) : null;
  const [, version, traceId, spanId, flags, more] = match ?? [];
  if (
    traceId === undefined ||
    spanId === undefined ||
    flags === undefined ||
    (version === "00" && more !== undefined)
  ) {
    return undefined;
  }
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}
