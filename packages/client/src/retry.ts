import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type Interceptor, type UnaryRequest } from "@connectrpc/connect";
import { ErrorInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";

export type RetryOptions = {
  /** Maximum number of attempts, including the first one. Defaults to 5. */
  readonly attempts?: number;
  /** Maximum delay before the second attempt; doubled for each further attempt. Defaults to 50. */
  readonly baseDelayMs?: number;
  /**
   * Upper bound of all delays. A call whose `Retry-After` is longer is not retried; under load shedding, it is at most
   * 3 s. Defaults to 5000.
   */
  readonly maxDelayMs?: number;
};

/**
 * Retries unary calls that fail while a server restarts, moves, or sheds load:
 *
 * - any call that no server has begun to process: the connection could not be established, an HTTP/2 server refused the
 *   stream (RFC 9113, section 8.7), or Flowgate is overloaded, which it reports before processing a call;
 * - calls that can be repeated also if the server is UNAVAILABLE or the connection was lost: those without side effects or
 *   idempotent ones (`idempotency_level`), and deployments with an `idempotency_key`.
 *
 * Delays are random with full jitter, so that clients do not retry simultaneously, but at least the `Retry-After` of the
 * response (in seconds). The deadline and the signal of a call end its retries. Streams are not retried, since only the
 * caller can resume one.
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
        const minDelayMs = retryAfterMs(error) ?? 0;
        if (attempt >= attempts || request.signal.aborted || minDelayMs > maxDelayMs || !isRetryable(error, request)) {
          throw error;
        }
        const backoffMs = Math.min(maxDelayMs, baseDelayMs * 2 ** (attempt - 1));
        await delay(Math.max(minDelayMs, Math.random() * backoffMs), request.signal);
        if (request.signal.aborted) {
          throw error;
        }
      }
    }
  };
}

/** Resolves after this time, or as soon as the signal is aborted. */
function delay(ms: number, signal: AbortSignal): Promise<void> {
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

function isRetryable(error: unknown, request: UnaryRequest): boolean {
  if (!(error instanceof ConnectError)) {
    return false;
  }
  if (wasNeverProcessed(error)) {
    return true;
  }
  return isRepeatable(request) && (error.code === Code.Unavailable || isConnectionLost(error));
}

function isRepeatable({ method, message }: UnaryRequest): boolean {
  const isIdempotent = method.idempotency !== MethodOptions_IdempotencyLevel.IDEMPOTENCY_UNKNOWN;
  return isIdempotent || Boolean("idempotencyKey" in message && message.idempotencyKey);
}

function wasNeverProcessed(error: ConnectError): boolean {
  return (
    hasCause(error, noConnection) ||
    (isReset(error) && /REFUSED_STREAM\b/.test(error.rawMessage)) ||
    error.findDetails(ErrorInfoSchema).some(({ domain, reason }) => domain === "flowgate" && reason === "overloaded")
  );
}

/** A lost connection resets its streams with CANCEL. Calls canceled by the caller never get here. */
function isConnectionLost(error: ConnectError): boolean {
  return hasCause(error, brokenConnection) || (isReset(error) && /\bCANCEL\b/.test(error.rawMessage));
}

/** Connect's transport reports a reset stream in one of two ways, with the error code only in the message. */
function isReset(error: ConnectError): boolean {
  return hasCause(error, resetStream) || error.rawMessage.startsWith("http/2 stream closed with error code ");
}

const resetStream = new Set(["ERR_HTTP2_STREAM_ERROR"]);
const noConnection = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);
const brokenConnection = new Set(["ECONNRESET", "EPIPE", "ERR_STREAM_PREMATURE_CLOSE", "ERR_HTTP2_INVALID_SESSION"]);

/** True if the error, or one of its causes, is a Node error with one of the codes. */
function hasCause(error: unknown, codes: ReadonlySet<string>): boolean {
  for (let each = error; each instanceof Error; each = each.cause) {
    if ("code" in each && typeof each.code === "string" && codes.has(each.code)) {
      return true;
    }
  }
  return false;
}

/** Parses Retry-After in seconds (RFC 9110, section 10.2.3). The date form is not supported. */
function retryAfterMs(error: unknown): number | undefined {
  const value = error instanceof ConnectError ? error.metadata.get("retry-after") : null;
  return value !== null && /^\d{1,9}$/.test(value) ? Number(value) * 1000 : undefined;
}
