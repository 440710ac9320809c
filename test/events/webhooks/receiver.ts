import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export type Received = { readonly path: string; readonly headers: IncomingMessage["headers"]; readonly body: string };

export type Receiver = AsyncDisposable & {
  readonly port: number;
  readonly received: readonly Received[];
  /** How it responds; at first with 204. */
  respond: (received: Received, response: ServerResponse) => void;
  /** Resolves with all requests so far when there are so many. */
  until(count: number): Promise<readonly Received[]>;
};

/** An HTTP server on 127.0.0.1 that records requests. */
export async function openReceiver(): Promise<Receiver> {
  const received: Received[] = [];
  const waiting = new Set<() => void>();
  const receiver = {
    received,
    respond: (_: Received, response: ServerResponse): void => void response.writeHead(204).end(),
  };
  const server = createServer((request, response) => {
    void text(request)
      .then((body) => {
        const each = { path: request.url ?? "", headers: request.headers, body };
        received.push(each);
        receiver.respond(each, response);
        waiting.forEach((look) => look());
      })
      .catch(() => {});
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return Object.assign(receiver, {
    port: (server.address() as AddressInfo).port,
    until: (count: number): Promise<readonly Received[]> =>
      new Promise((resolve) => {
        const look = (): void => {
          if (received.length >= count) {
            waiting.delete(look);
            resolve(received);
          }
        };
        waiting.add(look);
        look();
      }),
    async [Symbol.asyncDispose](): Promise<void> {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  });
}
