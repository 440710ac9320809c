import type { DescMethod } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.ts";

export type RetryOptions = {
  /** How often a call is tried in all. Default: 5. */
  readonly attempts?: number;
  /** The longest pause before the second try; doubled each time. Default: 50. */
  readonly baseDelayMs?: number;
  /**
   * The longest pause of all, and the longest `Retry-After` that is waited for: a server that sheds load says up to
   * 3 s. Default: 5000.
   */
  readonly maxDelayMs?: number;
};

/**
 * Repeats unary calls that fail while a server restarts, moves, or sheds load:
 *
 * - any call that no server has begun to process: the connection could not be made, an HTTP/2 server refused the
 *   stream (RFC 9113, section 8.7), or Flowgate is overloaded, which it says before it does anything;
 * - calls without side effects (`idempotency_level`), also where the server is UNAVAILABLE or the connection broke.
 *
 * The pauses are random up to their limit, that clients don't come back all at once; a `Retry-After` in seconds is the least.
 * The call's own deadline and signal end the tries. Streams are not repeated: who reads one knows where to go on.
 */
export function retryInterceptor(options: RetryOptions = {}): Interceptor {
  const { attempts = 5, baseDelayMs = 50, maxDelayMs = 5000 } = options;
  return (next) => async (request) => {
    if (request.stream) {
      return next(request);
    }
    for (let attempt = 1; ; attempt++) {
      try {
        return await next(request);
      } catch (error) {
        const pauseMs = retryAfterMs(error) ?? 0;
        if (
          attempt >= attempts ||
          request.signal.aborted ||
          pauseMs > maxDelayMs ||
          !mayRepeat(error, request.method)
        ) {
          throw error;
        }
        const limitMs = Math.min(maxDelayMs, baseDelayMs * 2 ** (attempt - 1));
        await pause(Math.max(pauseMs, Math.random() * limitMs), request.signal);
        if (request.signal.aborted) {
          throw error;
        }
      }
    }
  };
}

/** Resolves after this time, or as soon as the signal is aborted. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}

function mayRepeat(error: unknown, method: DescMethod): boolean {
  if (!(error instanceof ConnectError)) {
    return false;
  }
  if (wasNeverProcessed(error)) {
    return true;
  }
  const isRead = method.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS;
  return isRead && (error.code === Code.Unavailable || isBroken(error));
}

function wasNeverProcessed(error: ConnectError): boolean {
  return (
    hasCause(error, noConnection) ||
    (isReset(error) && /REFUSED_STREAM\b/.test(error.rawMessage)) ||
    error.findDetails(ErrorInfoSchema).some(({ domain, reason }) => domain === "flowgate" && reason === "overloaded")
  );
}

/** The call was not canceled, or it would not be asked: a lost connection resets its streams with this code. */
function isBroken(error: ConnectError): boolean {
  return hasCause(error, brokenConnection) || (isReset(error) && /\bCANCEL\b/.test(error.rawMessage));
}

/** Connect's transport tells of a reset stream in one of two ways, and keeps its error code in the message alone. */
function isReset(error: ConnectError): boolean {
  return hasCause(error, resetStream) || error.rawMessage.startsWith("http/2 stream closed with error code ");
}

const resetStream = new Set(["ERR_HTTP2_STREAM_ERROR"]);
const noConnection = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);
const brokenConnection = new Set(["ECONNRESET", "EPIPE", "ERR_STREAM_PREMATURE_CLOSE", "ERR_HTTP2_INVALID_SESSION"]);

/** Whether the error, or what caused it, is one of Node's with such a code. */
function hasCause(error: unknown, codes: ReadonlySet<string>): boolean {
  for (let each = error; each instanceof Error; each = each.cause) {
    if ("code" in each && typeof each.code === "string" && codes.has(each.code)) {
      return true;
    }
  }
  return false;
}

/** RFC 9110, section 10.2.3; of its two forms the one that servers use under load. */
function retryAfterMs(error: unknown): number | undefined {
  const value = error instanceof ConnectError ? error.metadata.get("retry-after") : null;
  return value !== null && /^\d{1,9}$/.test(value) ? Number(value) * 1000 : undefined;
}
