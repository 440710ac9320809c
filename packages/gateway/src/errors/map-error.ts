import { ConnectError, type HandlerContext } from "@connectrpc/connect";

/** Compiles the `mapError` option: maps an error that was thrown during a call. Never throws. */
export function createErrorMapper(
  mapError: ((error: unknown, context: HandlerContext) => ConnectError) | undefined,
): (error: unknown, context: HandlerContext) => unknown {
  return (error, context) => {
    try {
      return mapError?.(error, context) ?? error;
    } catch (thrown) {
      // Otherwise it would be an unhandled rejection, which ends a Node process.
      // oxlint-disable-next-line no-console -- the library has no logger, and runs where there is no process.stderr.
      console.error("the option mapError must not throw, but threw:", thrown);
      return thrown instanceof ConnectError ? new Error("mapError threw") : thrown;
    }
  };
}
