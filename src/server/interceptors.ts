import {
  Code,
  ConnectError,
  type HandlerContext,
  type Interceptor,
  type StreamResponse,
  type UnaryResponse,
} from "@connectrpc/connect";
import type { Logger } from "pino";
import { peerKey } from "../auth/principal.ts";
import { FlowgateError } from "../errors.ts";
import { traceIds, traceKey } from "../telemetry/trace.ts";
import { exchangeKey } from "./exchange.ts";
import { toConnectError } from "./rpc/connect-error.ts";

export type Gate = (context: HandlerContext) => void | Promise<void>;

/**
 * Turns a FlowgateError into a ConnectError. Anything else that is not a ConnectError is a bug: it is logged with its
 * stack, once, and the caller gets the request id to find it by. Outermost, so that it sees what other interceptors throw.
 */
export function failureInterceptor(log: Logger): Interceptor {
  return (next) => (request) => {
    // Only a failure asks for values and the signal: over HTTP they are not made before.
    const fail = (error: unknown): never => {
      throw failureOf(error, log, { method: request.method, values: request.contextValues, signal: request.signal });
    };
    // A stream fails while it is read, long after next() has returned.
    const watch = (response: UnaryResponse | StreamResponse): UnaryResponse | StreamResponse =>
      response.stream ? { ...response, message: rethrowing(response.message, fail) } : response;
    try {
      // An interceptor that is not an async function may throw, or give what is no promise.
      return Promise.resolve(next(request)).then(request.stream ? watch : undefined, fail);
    } catch (error) {
      return fail(error);
    }
  };
}

/** The same for the gate, which runs before any interceptor. It waits only where the gate does. */
export function gateWithFailures(gate: Gate, log: Logger): Gate {
  return (context) => {
    try {
      return gate(context)?.catch((error: unknown) => {
        throw failureOf(error, log, context);
      });
    } catch (error) {
      throw failureOf(error, log, context);
    }
  };
}

/** Lets the exchange know of the call that is made in it, whether the gate then lets it in or not. */
export function gateWithExchange(gate: Gate): Gate {
  return (context) => {
    context.values.get(exchangeKey)?.begin(context);
    return gate(context);
  };
}

/** A call whose time is over when it is let in is not begun, however short it would be. */
export function gateWithDeadline(gate: Gate): Gate {
  return (context) => {
    const admitted = gate(context);
    return admitted === undefined ? assertInTime(context) : admitted.then(() => assertInTime(context));
  };
}

function assertInTime(context: HandlerContext): void {
  const leftMs = context.timeoutMs();
  if (leftMs !== undefined && leftMs <= 0) {
    throw new ConnectError("the operation timed out", Code.DeadlineExceeded);
  }
}

type Call = Pick<HandlerContext, "method" | "values" | "signal">;

function failureOf(error: unknown, log: Logger, call: Call): ConnectError {
  const failure = explain(error, log, call);
  call.values.get(exchangeKey)?.fail(failure.code);
  return failure;
}

function explain(error: unknown, log: Logger, call: Call): ConnectError {
  if (error instanceof ConnectError) {
    return error;
  }
  if (error instanceof FlowgateError) {
    return toConnectError(error);
  }
  const { method, values, signal } = call;
  // A call that its client gave up, or whose time is over, ends with whatever the abort threw.
  if (signal.aborted && (error === signal.reason || isAbort(error))) {
    return ConnectError.from(signal.reason);
  }
  const { requestId } = values.get(peerKey);
  log.error(
    {
      requestId,
      ...traceIds(values.get(traceKey)),
      procedure: `${method.parent.typeName}/${method.name}`,
      err: error,
    },
    "a call failed unexpectedly",
  );
  return toConnectError(new FlowgateError("internal", internalMessage(requestId)));
}

/** Of a signal, or of a request stream whose client went away. */
function isAbort(error: unknown): boolean {
  return (
    error instanceof Error &&
    (error.name === "AbortError" || ("code" in error && error.code === "ERR_STREAM_PREMATURE_CLOSE"))
  );
}

export function internalMessage(requestId: string): string {
  return `internal error; the log has the details under request ${requestId}`;
}

async function* rethrowing<T>(messages: AsyncIterable<T>, fail: (error: unknown) => never): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (error) {
    fail(error);
  }
}
