import { once } from "node:events";
import type { AddressInfo } from "node:net";
import type { Context } from "@opentelemetry/api";
import { pino } from "pino";
import type { ExchangeHandler } from "../../src/server/http/exchange.ts";
import { createListener } from "../../src/server/http/listener.ts";
import { createPipeline } from "../../src/server/pipeline/pipeline.ts";
import { createRequestIds, type RequestContext, type RequestRoute } from "../../src/server/pipeline/request-context.ts";
import { createClientReader } from "../../src/server/pipeline/client.ts";
import { silentObserver } from "../../src/telemetry/observer.ts";

/** Serves routes by a pipeline without guards. */
export async function serveRoutes(
  findRoute: (request: RequestContext) => RequestRoute,
  {
    traceRoot,
    around = (handle) => handle,
  }: { traceRoot?: Context; around?: (handle: ExchangeHandler) => ExchangeHandler } = {},
) {
  const { handle } = createPipeline({
    environment: {
      client: createClientReader(() => false),
      requestIdOf: createRequestIds(),
      readWorkload: undefined,
      findCookies: undefined,
      observer: silentObserver,
      memory: undefined,
      assertDecodable: undefined,
      onEnd: undefined,
      findRoute,
    },
    guards: [],
    traceRoot,
    log: pino({ level: "silent" }),
  });
  const server = createListener(around(handle), { closeGraceMs: 100 });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}
