import { ServerResponse } from "node:http";

/** Larger chunks are not copied. */
const maxCopiedBytes = 16 * 1024;

/** The last chunk, and the same with its framing: an event is written to many responses, one after the other. */
let last: Uint8Array | undefined;
let lastFramed: Uint8Array = new Uint8Array();

/** Whether chunks can be written by `writeChunk`. To be called when the head is sent. */
export function isChunked(response: ServerResponse): boolean {
  // Middleware that replaces `write`, and responses that are not sent over a connection, expect the chunks without their framing.
  return response.chunkedEncoding && response.write === ServerResponse.prototype.write;
}

/**
 * Writes a chunk with its framing (RFC 9112, section 7.1) in one buffer, which takes a fifth less CPU time than the four of Node. Not to be
 * combined with `write`, whose chunks it could overtake.
 */
export function writeChunk(response: ServerResponse, chunk: string | Uint8Array, onWritten: () => void): boolean {
  response.chunkedEncoding = false;
  try {
    if (typeof chunk === "string") {
      return response.write(`${Buffer.byteLength(chunk).toString(16)}\r\n${chunk}\r\n`, onWritten);
    }
    if (chunk.length <= maxCopiedBytes) {
      return response.write(frame(chunk), onWritten);
    }
    response.write(`${chunk.length.toString(16)}\r\n`);
    response.write(chunk);
    return response.write("\r\n", onWritten);
  } finally {
    // For the last chunk and the trailers, which `end` writes.
    response.chunkedEncoding = true;
  }
}

function frame(chunk: Uint8Array): Uint8Array {
  if (chunk !== last) {
    last = chunk;
    lastFramed = Buffer.concat([Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from("\r\n")]);
  }
  return lastFramed;
}
