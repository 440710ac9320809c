import { smallBodyBytes, type GatewayRequest } from "../http/request.ts";

/** The maximum growth of a step's output over the previous step's. */
const STEP_FACTOR = 8;

/**
 * Decompresses a body to at most `maxBytes`. If the request limits its memory, it is decompressed with growing limits, the first
 * one 64 KiB without a reservation and each further one with one, because the decompressed size is unknown. `decompress` rejects with a RangeError if the output exceeds its limit.
 */
export async function decompressInSteps(
  decompress: (maxOutputLength: number) => Promise<Uint8Array>,
  maxBytes: number,
  request: Pick<GatewayRequest, "reserve">,
): Promise<Uint8Array> {
  if (request.reserve === undefined) {
    return decompress(maxBytes);
  }
  for (let limit = Math.min(smallBodyBytes, maxBytes); ; limit = Math.min(STEP_FACTOR * limit, maxBytes)) {
    if (limit > smallBodyBytes) {
      await request.reserve(limit);
    }
    try {
      return await decompress(limit);
    } catch (error) {
      if (limit === maxBytes || !(error instanceof RangeError)) {
        throw error;
      }
    }
  }
}

export function withReservation<T>(
  bytes: Uint8Array,
  request: Pick<GatewayRequest, "reserve">,
  use: (bytes: Uint8Array) => T | Promise<T>,
): T | Promise<T> {
  const wait = bytes.length > smallBodyBytes ? request.reserve?.(bytes.length, bytes) : undefined;
  return wait === undefined ? use(bytes) : wait.then(() => use(bytes));
}
