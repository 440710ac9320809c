import type { HandlerContext } from "@connectrpc/connect";

/** Reports an unexpected error, of which clients see "internal error" only. Never throws. */
export type ReportError = (error: unknown, context?: HandlerContext) => void;

export function createErrorReporter(onError: ReportError = logError): ReportError {
  const report = async (error: unknown, context?: HandlerContext): Promise<void> => {
    try {
      // It may be an async function, whose unhandled rejection would end a Node process.
      await (onError(error, context) as unknown);
    } catch (cause) {
      logError(new Error("the option onError must not throw", { cause }));
      logError(error, context);
    }
  };
  return (error, context) => void report(error, context);
}

function logError(error: unknown, context?: HandlerContext): void {
  const where = context === undefined ? "" : ` in ${context.method.toString()}`;
  // oxlint-disable-next-line no-console -- the library has no logger, and runs where there is no process.stderr.
  console.error(`unexpected error${where}:`, error);
}
