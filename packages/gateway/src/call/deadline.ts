import { Code, ConnectError } from "@connectrpc/connect";
import type { RequestHeaders } from "../http/request.ts";
import { RequestError } from "../http/request-error.ts";

/** The units of grpc-timeout, in ms. */
const units: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };

/**
 * Reads the timeout of a request, in ms: the smallest of its timeout headers, and at most `maxMs`. Returns undefined if
 * there are none, and a RequestError if one is malformed; it is not thrown because the request gate takes precedence.
 */
export function readTimeout(headers: RequestHeaders, maxMs: number): number | RequestError | undefined {
  const grpc = headers["grpc-timeout"];
  const connect = headers["connect-timeout-ms"];
  const server = headers["x-server-timeout"];
  if (grpc === undefined && connect === undefined && server === undefined) {
    return undefined;
  }
  let min = maxMs;
  if (grpc !== undefined) {
    const [, digits, unit] = /^(\d{1,8})([HMSmun])$/.exec(String(grpc)) ?? [];
    if (digits === undefined || unit === undefined) {
      return malformed("Grpc-Timeout: must be up to 8 digits and one of the units H, M, S, m, u, n");
    }
    min = Math.min(min, Number(digits) * (units[unit] ?? 1));
  }
  if (connect !== undefined) {
    if (!/^\d{1,10}$/.test(String(connect))) {
      return malformed("Connect-Timeout-Ms: must be up to 10 digits");
    }
    min = Math.min(min, Number(connect));
  }
  if (server !== undefined) {
    if (!/^\d+(?:\.\d+)?$/.test(String(server))) {
      return malformed("X-Server-Timeout: must be a number of seconds, such as 30 or 0.5");
    }
    min = Math.min(min, Number(server) * 1000);
  }
  return min;
}

function malformed(message: string): RequestError {
  return new RequestError(400, "invalid_argument", message);
}

/** The deadline of a call. */
export type Deadline = {
  remainingMs(): number;
  /** Never resolves; rejects with `error` when the deadline expires. */
  readonly expired: Promise<never>;
  /** The error with code DEADLINE_EXCEEDED. */
  readonly error: ConnectError;
  clear(): void;
};

export function createDeadline(timeoutMs: number): Deadline {
  let end = performance.now() + timeoutMs;
  const error = new ConnectError("the operation timed out", Code.DeadlineExceeded);
  const { promise, reject } = Promise.withResolvers<never>();
  // Prevents an unhandled rejection if nothing awaits the promise.
  promise.catch(() => {});
  const timer = setTimeout(() => {
    // A timer can fire a fraction of a millisecond early.
    end = 0;
    reject(error);
  }, Math.ceil(timeoutMs));
  return {
    remainingMs: () => Math.max(0, end - performance.now()),
    expired: promise,
    error,
    clear: () => clearTimeout(timer),
  };
}
