import type { IncomingMessage } from "node:http";
import type { Http2ServerRequest, ServerHttp2Stream } from "node:http2";
import { RequestError } from "../../http/request-error.ts";
import { createAccumulator } from "./accumulator.ts";

/** Where a request's body is read from: a request of HTTP/1.1 or of the compatibility layer, or a stream of HTTP/2. */
export type BodySource = IncomingMessage | Http2ServerRequest | ServerHttp2Stream;

/** The body as it arrives. Ending the iteration leaves the rest unread. Throws a RequestError if the connection ends first. */
export async function* streamBody(source: BodySource): AsyncGenerator<Uint8Array> {
  try {
    yield* source.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>;
  } catch {
    throw incomplete();
  }
  if (isAborted(source)) {
    throw incomplete();
  }
}

/** The whole body; rejects with a RequestError 413 if it is longer than `maxBytes`. `length` is the Content-Length, if known. */
export function readBody(source: BodySource, length: string | undefined, maxBytes: number): Promise<Uint8Array> {
  const tooLarge = (): RequestError =>
    new RequestError(413, "payload_too_large", `the body is larger than ${maxBytes} bytes`);
  if (length !== undefined && Number(length) > maxBytes) {
    return Promise.reject(tooLarge());
  }
  // A destroyed source emits no more events.
  if (source.destroyed) {
    return Promise.reject(incomplete());
  }
  return new Promise((resolve, reject) => {
    // Copied chunk by chunk: all at once would block the event loop for 0.3 ms and more each MB.
    const body = createAccumulator(length === undefined ? undefined : Number(length), maxBytes);
    const take = (chunk: Buffer): void => {
      if (body.bytes + chunk.length > maxBytes) {
        source.off("data", take);
        source.pause();
        reject(tooLarge());
      } else {
        body.append(chunk);
      }
    };
    // Listeners stay on: removing them costs more than an event that comes too late.
    let isOver = false;
    const end = (): void => {
      isOver = true;
      if (isAborted(source)) {
        reject(incomplete());
      } else {
        resolve(body.take());
      }
    };
    const fail = (): void => {
      if (!isOver) {
        reject(incomplete());
      }
    };
    source.on("data", take).on("end", end).on("error", fail).on("close", fail);
  });
}

/** Node also ends the readable side of an HTTP/2 stream that its client has reset without an error. */
function isAborted(source: BodySource): boolean {
  return "sentHeaders" in source && source.closed && !source.headersSent;
}

function incomplete(): RequestError {
  return new RequestError(400, "incomplete_body", "the connection ended before the body did");
}
