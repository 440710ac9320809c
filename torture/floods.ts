import { once } from "node:events";
import type { Socket } from "node:net";
import { setImmediate, setTimeout as delay } from "node:timers/promises";
import {
  errorCode,
  flag,
  frame,
  framesIn,
  get,
  headerBlock,
  openRaw2,
  post,
  preface,
  setting,
  type,
  uint32,
} from "../test/server/http/frames.ts";
import { openRaw, type RawConnection } from "../test/server/http/raw-connection.ts";

/** A hostile client: what it sends first, and then again and again. */
export type Flood = {
  readonly open: (port: number) => Promise<RawConnection>;
  readonly first?: Buffer | string;
  readonly next: (at: number) => Buffer | string;
  /** The pause between two chunks. Absent: as fast as the service reads. */
  readonly everyMs?: number;
  /** The service may reset the stream and keep the connection. */
  readonly isOneStream?: boolean;
};

const repeat = (count: number, make: (at: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, at) => make(at)));
/** The same small frames again and again, in chunks of tens of kilobytes, which cost the client little. */
const same = (frames: Buffer): Flood["next"] => {
  const chunk = repeat(4_000, () => frames);
  return () => chunk;
};
const streamOf = (at: number): number => 2 * at + 1;
const ending = flag.endStream | flag.endHeaders;

/** These cost the service less than calls of the same size, and it keeps nothing of them: their connections stay open. */
const harmless: Readonly<Record<string, Flood>> = {
  "HTTP/2 WINDOW_UPDATE": { open: openRaw2, next: same(frame(type.windowUpdate, 0, 0, uint32(1))) },
  "HTTP/2 padding": {
    open: openRaw2,
    first: post(1),
    next: same(frame(type.data, flag.padded, 1, Buffer.concat([Buffer.from([20]), Buffer.alloc(20)]))),
  },
  "HTTP/2 headers of too many fields": {
    open: openRaw2,
    next: (at) =>
      repeat(20, (each) => frame(type.headers, ending, streamOf(20 * at + each), headerBlock("GET", manyFields))),
  },
};
const manyFields = Array.from({ length: 200 }, () => ["x", "y"] as const);

const fast: Readonly<Record<string, Flood>> = {
  "HTTP/2 PING": { open: openRaw2, next: same(frame(type.ping, 0, 0, Buffer.alloc(8))) },
  "HTTP/2 SETTINGS": { open: openRaw2, next: same(frame(type.settings, 0, 0)) },
  "HTTP/2 PRIORITY": { open: openRaw2, next: same(frame(type.priority, 0, 1, Buffer.from([0, 0, 0, 0, 1]))) },
  "HTTP/2 frames of an unknown type": { open: openRaw2, next: same(frame(0x42, 0, 0, Buffer.alloc(8))) },
  "HTTP/2 empty DATA": { open: openRaw2, first: post(1), next: same(frame(type.data, 0, 1)) },
  "HTTP/2 CONTINUATION": {
    open: openRaw2,
    first: frame(type.headers, flag.endStream, 1, headerBlock("GET")),
    next: same(frame(type.continuation, 0, 1, Buffer.from([0, 1, 0x61, 1, 0x62]))),
  },
  "HTTP/2 rapid reset": {
    open: openRaw2,
    next: (at) =>
      repeat(100, (each) => {
        const streamId = streamOf(100 * at + each);
        return Buffer.concat([get(streamId), frame(type.rstStream, 0, streamId, uint32(errorCode.cancel))]);
      }),
  },
  "HTTP/2 invalid trailers": {
    open: openRaw2,
    next: (at) =>
      repeat(50, (each) => {
        const streamId = streamOf(50 * at + each);
        return Buffer.concat([post(streamId), post(streamId)]);
      }),
  },
  "HTTP/1.1 pipelining": { open: openRaw, next: () => "GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100) },
  "HTTP/1.1 chunk extensions": {
    open: openRaw,
    first: "POST /auth/token HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;",
    next: () => "x".repeat(4_096),
  },
  "HTTP/1.1 header fields": {
    open: openRaw,
    first: "GET / HTTP/1.1\r\nHost: localhost\r\n",
    next: (at) => `X-${at}: ${"y".repeat(1_000)}\r\n`,
  },
};

const slow: Readonly<Record<string, Flood>> = {
  "a slow HTTP/2 preface": { open: openRaw, everyMs: 40, next: (at) => preface.subarray(at % 20, (at % 20) + 1) },
  "HTTP/2 with a window of zero": {
    open: (port) => openRaw2(port, [setting(4, 0)]),
    first: frame(type.headers, ending, 1, headerBlock("GET", [], "/openapi.json")),
    isOneStream: true,
    everyMs: 40,
    next: () => frame(type.ping, 0, 0, Buffer.alloc(8)),
  },
  "HTTP/2 with windows that run out": {
    open: openRaw2,
    first: repeat(50, (at) => frame(type.headers, ending, streamOf(at), headerBlock("GET", [], "/openapi.json"))),
    isOneStream: true,
    everyMs: 40,
    next: () => frame(type.ping, 0, 0, Buffer.alloc(8)),
  },
  "HTTP/2 with one byte of window at a time": {
    open: (port) => openRaw2(port, [setting(4, 0)]),
    first: frame(type.headers, ending, 1, headerBlock("GET", [], "/openapi.json")),
    isOneStream: true,
    everyMs: 40,
    next: () => frame(type.windowUpdate, 0, 1, uint32(1)),
  },
  "slow headers (slowloris)": {
    open: openRaw,
    first: "GET / HTTP/1.1\r\nHost: localhost\r\n",
    everyMs: 40,
    next: () => "X: y\r\n",
  },
  "a slow body": {
    open: openRaw,
    first:
      "POST /auth/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n",
    everyMs: 40,
    next: () => " ",
  },
  "a connection without a request": { open: openRaw, everyMs: 40, next: () => "" },
};

export const floods: Readonly<Record<string, Flood>> = { ...fast, ...slow, ...harmless };
export const fastFloods: readonly string[] = Object.keys(fast);
export const harmlessFloods: readonly string[] = Object.keys(harmless);
export const slowFloods: readonly string[] = Object.keys(slow);

export type FloodOutcome = {
  readonly bytes: number;
  /** Until the service ended the attack by closing the connection or resetting the stream; undefined: it did not in time. */
  readonly endedAfterMs: number | undefined;
  /** The beginning of what the service has sent. */
  readonly response: string;
};

/** Floods a service on one connection until it puts an end to that, at most this long. */
export async function flood(
  { open, first, next, everyMs, isOneStream = false }: Flood,
  port: number,
  limitMs: number,
): Promise<FloodOutcome> {
  const beganMs = performance.now();
  const elapsedMs = () => performance.now() - beganMs;
  using raw = await open(port);
  const { socket } = raw;
  const isEnded = () => !socket.writable || (isOneStream && hasResetStream(raw));
  let at = 0;
  raw.write(first ?? "");
  while (!isEnded() && elapsedMs() < limitMs) {
    if (!socket.write(next(at++))) {
      await untilDrained(socket, limitMs - elapsedMs());
    }
    await (everyMs === undefined ? setImmediate() : delay(everyMs));
  }
  return {
    bytes: socket.bytesWritten,
    endedAfterMs: isEnded() ? elapsedMs() : undefined,
    response: raw.received().slice(0, 400),
  };
}

/** Resolves after `limitMs` anyway, since a service may never read again. */
async function untilDrained(socket: Socket, limitMs: number): Promise<void> {
  const waiting = new AbortController();
  await Promise.race([
    once(socket, "drain", waiting),
    once(socket, "close", waiting),
    delay(limitMs, undefined, waiting),
  ]).catch(() => {
    // The connection was reset, which ends the flood.
  });
  waiting.abort();
}

/** A blocked stream of HTTP/2 is reset, while its connection stays. Another one may have been served before. */
function hasResetStream(raw: RawConnection): boolean {
  return framesIn(raw.received()).some((frame) => frame.type === type.rstStream);
}
