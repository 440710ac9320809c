import { ConnectError, type HandlerContext } from "@connectrpc/connect";
import type { Logger } from "pino";
import { peerKey } from "../../auth/caller.ts";
import { FlowgateError } from "../../errors.ts";
import { traceIds, traceKey } from "../../telemetry/trace.ts";
import { toConnectError } from "./connect-error.ts";

/** Throws or rejects to reject a call before its body is read. */
export type Gate = (context: HandlerContext) => void | Promise<void>;

type Call = Pick<HandlerContext, "method" | "values" | "signal">;

/** Converts an error that ended a call. Errors that a caller can't act on are logged and reported as `internal`. */
export function toFailure(error: unknown, log: Logger, call: Call): ConnectError {
  if (error instanceof ConnectError) {
    return error;
  }
  if (error instanceof FlowgateError) {
    return toConnectError(error);
  }
  const { method, values, signal } = call;
  // The call was cancelled or its deadline passed, so that the implementation failed with an abort error.
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

/** Whether a signal was aborted, or the client of a request stream disconnected. */
function isAbort(error: unknown): boolean {
  return (
    error instanceof Error &&
    (error.name === "AbortError" || ("code" in error && error.code === "ERR_STREAM_PREMATURE_CLOSE"))
  );
}

export function internalMessage(requestId: string): string {
  return `internal error; the log has the details under request ${requestId}`;
}
