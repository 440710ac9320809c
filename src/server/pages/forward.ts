import type { IncomingMessage } from "node:http";
import type { GatewayResponse } from "@flowgate/gateway";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { inject } from "light-my-request";
import type { RequestContext } from "../pipeline/request-context.ts";

const contexts = new WeakMap<IncomingMessage, RequestContext>();

export function contextOf({ raw }: FastifyRequest): RequestContext {
  const context = contexts.get(raw);
  if (context === undefined) {
    throw new TypeError("the request does not come from the pipeline");
  }
  return context;
}

/**
 * Has Fastify serve a request of any HTTP version, and streams its response. Handlers read a body by the pipeline (`contextOf`), which
 * limits it.
 */
export async function forward(app: FastifyInstance, request: RequestContext): Promise<GatewayResponse> {
  const { httpMethod, target } = request;
  const fields = Object.entries(request.headers).filter(([name]) => !name.startsWith(":"));
  const {
    statusCode: status,
    headers: { connection: _connection, date: _date, "transfer-encoding": _encoding, ...headers },
    stream,
    raw: { res },
  } = await inject(
    (raw, response) => {
      contexts.set(raw, request);
      app.routing(raw, response);
    },
    { method: httpMethod, url: target, headers: Object.fromEntries(fields), payloadAsStream: true, validate: false },
  );
  const body = stream();
  // When the client disconnects, it closes the file that is sent.
  body.once("close", () => res.destroy());
  const result = { status, headers: headers as GatewayResponse["headers"] };
  // A client that has disconnected already gets no response that could end the body.
  if (request.exchange.isClosed || httpMethod === "HEAD" || status === 304 || headers["content-length"] === "0") {
    body.destroy();
    return { ...result, body: undefined };
  }
  return { ...result, body };
}
