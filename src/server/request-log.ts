import type { Logger } from "pino";
import type { RequestContext } from "./pipeline/request-context.ts";

/** Logs each completed request at `debug`, failed ones (5xx) at `error`. Undefined unless `debug` is enabled: then not even failed requests are logged. */
export function createRequestLog(log: Logger): ((request: RequestContext) => void) | undefined {
  if (!log.isLevelEnabled("debug")) {
    return undefined;
  }
  return (request) => {
    const { status, httpVersion } = request.exchange;
    // 501 and 505: the request needs something that this server does not support.
    const level = status >= 500 && status !== 501 && status !== 505 ? "error" : "debug";
    log[level](
      {
        requestId: request.requestId,
        ...request.traceIds,
        client: request.address,
        method: request.httpMethod,
        // Without the query, which may contain secrets.
        path: request.path,
        status,
        ms: Math.round((performance.now() - request.record.startMs) * 100) / 100,
        protocol: `HTTP/${httpVersion}`,
      },
      "request completed",
    );
  };
}
