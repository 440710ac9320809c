import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { setImmediate } from "node:timers/promises";
import { promisify } from "node:util";
import type { ExchangeHandler } from "../../src/server/listener/exchange.ts";
import { createListener } from "../../src/server/listener/listener.ts";
import type { ListenerLimits, ListenerOptions } from "../../src/server/listener/options.ts";
import { answer, readText, serving } from "./exchanges.ts";
import type { RawConnection } from "./raw.ts";

export type Limit = keyof ListenerLimits;

export type Limited = AsyncDisposable & {
  readonly port: number;
  /** The limits that were reached so far. */
  readonly reached: readonly Limit[];
  connections(): Promise<number>;
};

export const hello = serving((exchange) => {
  void readText(exchange).then(
    () => exchange.send(answer("hello")),
    () => {},
  );
});

/** A listener with no limits but these, as far as that can be. */
export async function listen(
  limits: Partial<ListenerOptions> = {},
  handler: ExchangeHandler = hello,
): Promise<Limited> {
  const reached: Limit[] = [];
  const server = createListener(handler, { ...off, onLimit: (limit) => void reached.push(limit), ...limits });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    reached,
    connections: () => promisify<number>((done) => server.getConnections(done))(),
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}

const off: Partial<ListenerOptions> = {
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
  minBytesPerSecond: 0,
  resetsPerSecond: 1_000_000,
  invalidFrames: 1_000_000,
  overheadBytesPerSecond: 1_000_000_000,
  closeGraceMs: 50,
};

/** Writes a piece every few ms, until the connection ends or someone disposes of it. */
export function drip(raw: RawConnection, next: () => Buffer | string): Disposable {
  const timer = setInterval(() => raw.write(next()), 5);
  const stop = (): void => clearInterval(timer);
  raw.socket.once("close", stop);
  return { [Symbol.dispose]: stop };
}

/**
 * Writes it, until the connection ends. Not all at once: nghttp2 by itself ends a connection that has 1,000 answers
 * to PING or SETTINGS waiting.
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
