import { Code, ConnectError } from "@connectrpc/connect";
import type { IncomingHttpHeaders } from "node:http";
import { RequestError } from "../http/request-error.ts";

/** The units of grpc-timeout, in ms. */
const units: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };

/**
 * How long a request's client waits, in ms: the smallest of its deadlines, and at most `maxMs`. Undefined where it
 * sent none; a RequestError, not thrown, where one is malformed: the gate comes before it.
 */
export function readTimeout(headers: IncomingHttpHeaders, maxMs: number): number | RequestError | undefined {
  const grpc = headers["grpc-timeout"];
  const connect = headers["connect-timeout-ms"];
  const server = headers["x-server-timeout"];
  if (grpc === undefined && connect === undefined && server === undefined) {
    return undefined;
  }
  let least = maxMs;
  if (grpc !== undefined) {
    const [, digits, unit] = /^(\d{1,8})([HMSmun])$/.exec(String(grpc)) ?? [];
    if (digits === undefined || unit === undefined) {
      return malformed("Grpc-Timeout: must be up to 8 digits and one of the units H, M, S, m, u, n");
    }
    least = Math.min(least, Number(digits) * (units[unit] ?? 1));
  }
  if (connect !== undefined) {
    if (!/^\d{1,10}$/.test(String(connect))) {
      return malformed("Connect-Timeout-Ms: must be up to 10 digits");
    }
    least = Math.min(least, Number(connect));
  }
  if (server !== undefined) {
    if (!/^\d+(?:\.\d+)?$/.test(String(server))) {
      return malformed("X-Server-Timeout: must be a number of seconds, such as 30 or 0.5");
    }
    least = Math.min(least, Number(server) * 1000);
  }
  return least;
}

function malformed(message: string): RequestError {
  return new RequestError(400, "invalid_argument", message);
}

/** The end of a call's time. Made only for a request that has a deadline: the others have no timer. */
export type Deadline = {
  /** What is left, in ms; 0 from when the time is up. */
  remainingMs(): number;
  /** Never resolves; rejects with `error` when the time is up. */
  readonly expired: Promise<never>;
  /** DEADLINE_EXCEEDED. */
  readonly error: ConnectError;
  /** The call is over. */
  clear(): void;
};

export function createDeadline(timeoutMs: number): Deadline {
  let end = performance.now() + timeoutMs;
  const error = new ConnectError("the operation timed out", Code.DeadlineExceeded);
  const { promise, reject } = Promise.withResolvers<never>();
  // Nobody may be waiting when it fires.
  promise.catch(() => {});
  const timer = setTimeout(() => {
    // A timer may be early by the part of a millisecond.
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
