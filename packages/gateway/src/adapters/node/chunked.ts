import { ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Larger chunks are not copied. */
const maxCopiedBytes = 16 * 1024;

/**
 * Writes the chunks of a response with their framing (RFC 9112, section 7.1), each in one buffer and to the connection itself. An event is written
 * to many responses one after the other, and `write` of Node would take four buffers, two ticks and two entries of queues for each.
 */
export class ChunkWriter {
  readonly #response: ServerResponse;
  readonly #onDrain: () => void;
  #tick = 0;

  /** `onDrain` is called when more can be written after `write` has returned false. */
  constructor(response: ServerResponse, onDrain: () => void) {
    this.#response = response;
    this.#onDrain = onDrain;
  }

  /** Not to be combined with `write` of the response. Returns false if the buffers are full, or the connection can't be written to any more. */
  write(chunk: string | Uint8Array): boolean {
    const response = this.#response;
    const { socket } = response;
    if (socket === null) {
      return this.#keep(chunk);
    }
    // A response that the application has ended has the connection until its last bytes are written.
    if (!socket.writable || response.writableEnded) {
      return false;
    }
    const tick = currentTick();
    if (tick === this.#tick) {
      cork(socket);
    }
    this.#tick = tick;
    const canContinue = writeFramed(socket, chunk);
    if (!canContinue) {
      socket.once("drain", this.#onDrain);
    }
    return canContinue;
  }

  whenWritten(callback: () => void): void {
    // An empty chunk has no framing.
    this.#response.write("", callback);
  }

  /**
   * A response has no connection until the responses to earlier requests are sent; Node buffers its writes until then.
   */
  #keep(chunk: string | Uint8Array): boolean {
    const response = this.#response;
    response.chunkedEncoding = false;
    const canContinue = writeFramed(response, chunk);
    // For the last chunk and the trailers, which `end` writes.
    response.chunkedEncoding = true;
    if (!canContinue) {
      response.once("drain", this.#onDrain);
    }
    return canContinue;
  }
}

export function isChunked(response: ServerResponse): boolean {
  // Middleware that replaces `write`, and responses that are not sent over a connection, expect the chunks without their framing.
  return response.chunkedEncoding && response.write === ServerResponse.prototype.write;
}

function writeFramed(target: Pick<Socket | ServerResponse, "write">, chunk: string | Uint8Array): boolean {
  if (typeof chunk === "string") {
    return target.write(`${Buffer.byteLength(chunk).toString(16)}\r\n${chunk}\r\n`);
  }
  if (chunk.length <= maxCopiedBytes) {
    return target.write(frame(chunk));
  }
  target.write(`${chunk.length.toString(16)}\r\n`);
  target.write(chunk);
  return target.write("\r\n");
}

let last: Uint8Array | undefined;
let lastFramed: Uint8Array = new Uint8Array();

function frame(chunk: Uint8Array): Uint8Array {
  if (chunk !== last) {
    last = chunk;
    lastFramed = Buffer.concat([Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from("\r\n")]);
  }
  return lastFramed;
}

/** Counts the ticks in which chunks are written. */
let tick = 1;
let isTickOpen = false;
/** Connections with several chunks in this tick. All but the first chunk are sent together at its end. */
let corked: Socket[] = [];

function currentTick(): number {
  if (!isTickOpen) {
    isTickOpen = true;
    process.nextTick(endTick);
  }
  return tick;
}

function endTick(): void {
  tick++;
  isTickOpen = false;
  const sockets = corked;
  corked = [];
  for (const socket of sockets) {
    socket.uncork();
  }
}

function cork(socket: Socket): void {
  if (socket.writableCorked === 0) {
    socket.cork();
    corked.push(socket);
  }
}
