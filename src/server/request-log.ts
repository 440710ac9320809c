import type { Logger } from "pino";
import type { RequestContext } from "./pipeline/request-context.ts";

/** Logs each request that is over; undefined if the level leaves that out, so that requests do not pay for it. */
export function createRequestLog(log: Logger): ((request: RequestContext) => void) | undefined {
  if (!log.isLevelEnabled("debug")) {
    return undefined;
  }
  return (request) => {
    const { status, httpVersion } = request.exchange;
    // 501 and 505: the client asked for something that this server does not do.
    const level = status >= 500 && status !== 501 && status !== 505 ? "error" : "debug";
    log[level](
      {
        requestId: request.requestId,
        ...request.traceIds,
        client: request.address,
        method: request.httpMethod,
        // Without the query, which may hold what no log should.
        path: request.path,
        status,
        ms: Math.round((performance.now() - request.record.startMs) * 100) / 100,
        protocol: `HTTP/${httpVersion}`,
      },
      "request completed",
    );
  };
}
