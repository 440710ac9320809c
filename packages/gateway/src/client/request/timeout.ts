import type { CompleteOptions } from "../options.ts";

/** Sets the header with the timeout of a call. */
export function setTimeoutHeader(header: Headers, timeoutMs: number, name: CompleteOptions["timeoutHeader"]): void {
  const ms = Math.ceil(timeoutMs);
  switch (name) {
    case "X-Server-Timeout":
      header.set(name, String(ms / 1000));
      break;
    case "Grpc-Timeout":
      // At most 8 digits.
      header.set(name, ms < 1e8 ? `${ms}m` : `${Math.ceil(ms / 1000)}S`);
      break;
    case "Connect-Timeout-Ms":
      header.set(name, String(ms));
      break;
    case "none":
  }
}
