import type { Exchange, ExchangeHandler } from "../../../src/server/http/exchange.ts";
import type { GatewayResponse } from "@flowgate/gateway";

/** A handler that serves requests that do not violate HTTP. */
export function serving(serve: (exchange: Exchange) => void): ExchangeHandler {
  return (exchange, rejection) => (rejection === undefined ? serve(exchange) : exchange.send(rejection));
}

/** A response of this body, with the status 200. */
export function okResponse(body: GatewayResponse["body"]): GatewayResponse {
  return { status: 200, headers: {}, body };
}

export async function readText(exchange: Exchange): Promise<string> {
  return Buffer.from(await exchange.readBody(Number.POSITIVE_INFINITY)).toString();
}
