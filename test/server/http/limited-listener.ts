import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { setImmediate } from "node:timers/promises";
import { promisify } from "node:util";
import type { ExchangeHandler } from "../../../src/server/http/exchange.ts";
import { createListener } from "../../../src/server/http/listener.ts";
import type { ListenerLimits, ListenerOptions } from "../../../src/server/http/listener-options.ts";
import { okResponse, readText, serving } from "./exchange-handler.ts";
import type { RawConnection } from "./raw-connection.ts";

export type Limit = keyof ListenerLimits;

export type LimitedListener = AsyncDisposable & {
  readonly port: number;
  /** The limits reached so far. */
  readonly reached: readonly Limit[];
  connections(): Promise<number>;
};

export const hello = serving((exchange) => {
  void readText(exchange).then(
    () => exchange.send(okResponse("hello")),
    () => {},
  );
});

/** A listener with only these limits; all others are set to a maximum. */
export async function listen(
  limits: Partial<ListenerOptions> = {},
  handler: ExchangeHandler = hello,
): Promise<LimitedListener> {
  const reached: Limit[] = [];
  const server = createListener(handler, { ...noLimits, onLimit: (limit) => void reached.push(limit), ...limits });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    reached,
    connections: () => promisify<number>((done) => server.getConnections(done))(),
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}

const noLimits: Partial<ListenerOptions> = {
  connections: 1_000_000,
  connectionsPerSource: 1_000_000,
  callsPerConnection: 1_000_000,
  headerBytes: 65_536,
  headerFields: 10_000,
  firstByteTimeoutMs: 600_000,
  headersTimeoutMs: 600_000,
  requestTimeoutMs: 600_000,
  idleTimeoutMs: 600_000,
  stallTimeoutMs: 600_000,
  anonymousStallTimeoutMs: 600_000,
  minBytesPerSecond: 0,
  closeGraceMs: 50,
};

/** Writes a chunk every few ms, until the connection closes or the result is disposed. */
export function drip(raw: RawConnection, next: () => Buffer | string): Disposable {
  const timer = setInterval(() => raw.write(next()), 5);
  const stop = (): void => clearInterval(timer);
  raw.socket.once("close", stop);
  return { [Symbol.dispose]: stop };
}

/**
 * Writes the bytes until the connection closes. In chunks, since nghttp2 itself closes a connection with 1,000 pending
 * acknowledgements of PING or SETTINGS.
 */
export async function flood(raw: RawConnection, bytes: Buffer): Promise<void> {
  const { socket } = raw;
  for (let at = 0; at < bytes.length && socket.writable; at += 4_096) {
    if (!socket.write(bytes.subarray(at, at + 4_096))) {
      await new Promise<void>((resolve) => socket.once("drain", resolve).once("close", () => resolve()));
    }
    await setImmediate();
  }
}
