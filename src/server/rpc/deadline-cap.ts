import { readTimeout } from "../../transcoding/index.ts";

const mostDigits = 99_999_999;

/**
 * Cuts the deadline that a call sets to `mostMs`, before Connect reads it: Connect refuses those that are longer
 * than its maxTimeoutMs, but clients write a very long one where they mean none. What is malformed is left to Connect.
 */
export function capDeadline(header: Headers, mostMs: number): void {
  if (exceeds(header, "grpc-timeout", mostMs)) {
    header.set("grpc-timeout", mostMs > mostDigits ? `${Math.floor(mostMs / 1_000)}S` : `${mostMs}m`);
  }
  if (exceeds(header, "connect-timeout-ms", mostMs)) {
    header.set("connect-timeout-ms", `${mostMs}`);
  }
}

function exceeds(header: Headers, name: string, mostMs: number): boolean {
  const value = header.get(name);
  const timeoutMs = value === null ? undefined : readTimeout({ [name]: value }, Infinity);
  return typeof timeoutMs === "number" && timeoutMs > mostMs;
}
