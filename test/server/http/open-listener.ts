import { once } from "node:events";
import type http2 from "node:http2";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { Exchange, ExchangeHandler } from "../../../src/server/http/exchange.ts";
import { createListener } from "../../../src/server/http/listener.ts";
import type { ListenerOptions } from "../../../src/server/http/listener-options.ts";
import { okResponse, serving } from "./exchange-handler.ts";

export const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

export const hello = serving((exchange) => exchange.send(okResponse("hello")));

export async function listen(handler: ExchangeHandler = hello, options: Partial<ListenerOptions> = {}) {
  const server = createListener(handler, { closeGraceMs: 2_000, ...options });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const close = () => new Promise<void>((resolve) => server.close(() => resolve()));
  return { server, port, close, [Symbol.asyncDispose]: close };
}

/** A handler that signals a request, and responds when it is released. */
export function held() {
  const arrived = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const handler = serving((exchange) => {
    arrived.resolve();
    void released.promise.then(() => exchange.send(okResponse("late")));
  });
  return { handler, arrived: arrived.promise, release: released.resolve };
}

export const readChunks = (exchange: Exchange): Promise<string> => text(exchange.streamBody());

export function get2(session: http2.ClientHttp2Session): Promise<string> {
  return text(session.request({ ":path": "/" }));
}
