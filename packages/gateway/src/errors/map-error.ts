import { create, toBinary } from "@bufbuild/protobuf";
import { ConnectError, type HandlerContext } from "@connectrpc/connect";
import type { CallContext } from "../call/context.ts";
import type { ReportError } from "./report-error.ts";

/** Maps an error that was thrown during a call. The details of a ConnectError that it returns can be encoded. Never throws. */
export type MapError = (error: unknown, context: CallContext) => unknown;

type GivenMapError = ((error: unknown, context: HandlerContext) => ConnectError) | undefined;

/** Compiles the option `mapError`. An error that is unexpected, also after it was mapped, is reported. */
export function createErrorMapper(mapError: GivenMapError, reportError: ReportError): MapError {
  return (error, context) => {
    const mapped = callMapError(mapError, error, context);
    if (mapped instanceof ConnectError) {
      return withoutInvalidDetails(mapped, (cause) => reportError(cause, context));
    }
    if (!context.isAbortError(mapped)) {
      reportError(mapped, context);
    }
    return mapped;
  };
}

function callMapError(mapError: GivenMapError, error: unknown, context: CallContext): unknown {
  try {
    return mapError?.(error, context) ?? error;
  } catch (cause) {
    return new AggregateError([cause, error], "the option mapError must not throw", { cause });
  }
}

/** A copy without the details that are no valid messages of their type, if there are any. */
function withoutInvalidDetails(error: ConnectError, report: (error: Error) => void): ConnectError {
  const valid = error.details.filter((detail) => {
    if (!("desc" in detail)) {
      return true;
    }
    try {
      toBinary(detail.desc, create(detail.desc, detail.value));
      return true;
    } catch (cause) {
      report(new Error(`the detail ${detail.desc.typeName} of an error can't be encoded`, { cause }));
      return false;
    }
  });
  if (valid.length === error.details.length) {
    return error;
  }
  const copy = new ConnectError(error.rawMessage, error.code, error.metadata, undefined, error.cause);
  copy.details = valid;
  return copy;
}
