import type { Interceptor } from "@connectrpc/connect";
import { changesServer } from "./failed-call.ts";

/** Warns at Ctrl-C that the server may still carry out the call. */
export const explainInterruption: Interceptor = (next) => async (request) => {
  if (!changesServer(request.method)) {
    return next(request);
  }
  process.once("SIGINT", explain);
  try {
    return await next(request);
  } finally {
    process.off("SIGINT", explain);
  }
};

function explain(): void {
  process.stderr.write(
    "\nflowgate: Interrupted. The server may still complete the call: see flowgate history or flowgate status before you repeat it.\n",
  );
  // Not at once, so that a spinner is removed.
  setImmediate(() => process.exit(130));
}
