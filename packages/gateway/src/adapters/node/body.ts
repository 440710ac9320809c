import type { IncomingMessage } from "node:http";
import type { Http2ServerRequest, ServerHttp2Stream } from "node:http2";
import { Accumulator } from "../../http/accumulator.ts";
import { smallBodyBytes } from "../../http/request.ts";
import { BodyTooLargeError } from "../../http/request-error.ts";
import { incompleteBody } from "../body-errors.ts";

/** The source of a request body: an HTTP/1.1 request, one of the HTTP/2 compatibility API, or an HTTP/2 stream. */
export type BodySource = IncomingMessage | Http2ServerRequest | ServerHttp2Stream;

/** Streams the body. Ending the iteration early leaves the rest unread. Throws a RequestError if the connection is closed before its end. */
export async function* streamBody(source: BodySource): AsyncGenerator<Uint8Array> {
  if (hasNoBody(source)) {
    return;
  }
  try {
    yield* source.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>;
  } catch {
    throw incompleteBody();
  }
  if (isAborted(source)) {
    throw incompleteBody();
  }
}

/**
 * Limits the memory of a body of unknown length. Called when the body exceeds 64 KiB, and again each time it exceeds the `bytes` of
 * the previous call. Reading continues when the promise resolves; if it rejects, reading the body rejects too.
 */
export type BodyReservation = { receive(bytes: number): Promise<void> | undefined };

/** A reservation is for this multiple of the bytes received so far. */
const STEP_FACTOR = 16;

/** Reads the whole body. Rejects with a RequestError of status 413 if it exceeds `maxBytes`. `length` is the Content-Length header. */
export function readBody(
  source: BodySource,
  length: string | undefined,
  maxBytes: number,
  reservation?: BodyReservation,
): Promise<Uint8Array> {
  if (length !== undefined && Number(length) > maxBytes) {
    return Promise.reject(new BodyTooLargeError(maxBytes));
  }
  if (hasNoBody(source)) {
    return Promise.resolve(new Uint8Array());
  }
  // A destroyed source emits no more events.
  if (source.destroyed) {
    return Promise.reject(incompleteBody());
  }
  return new Promise((resolve, reject) => {
    // Copied chunk by chunk: copying at the end would block the event loop for 0.3 ms or more per MB.
    let body: Accumulator | undefined = new Accumulator(length === undefined ? undefined : Number(length), maxBytes);
    let reserved = length === undefined ? smallBodyBytes : maxBytes;
    const stop = (error: unknown): void => {
      source.off("data", onData);
      source.pause();
      reject(error);
    };
    const onData = (chunk: Buffer): void => {
      if (body === undefined) {
        return;
      }
      const needed = body.bytes + chunk.length;
      if (needed > maxBytes) {
        stop(new BodyTooLargeError(maxBytes));
        return;
      }
      body.append(chunk);
      if (needed > reserved) {
        reserved = Math.min(maxBytes, STEP_FACTOR * needed);
        const wait = reservation?.receive(reserved);
        if (wait !== undefined) {
          source.pause();
          wait.then(() => source.resume(), stop);
        }
      }
    };
    // Listeners are not removed, which would cost more than ignoring a later event. The body is not kept, since a streaming response
    // can last for days.
    const onEnd = (): void => {
      if (body === undefined || isAborted(source)) {
        reject(incompleteBody());
      } else {
        resolve(body.take());
      }
      body = undefined;
    };
    const onClose = (): void => {
      if (body !== undefined) {
        body = undefined;
        reject(incompleteBody());
      }
    };
    source.on("data", onData).on("end", onEnd).on("error", onClose).on("close", onClose);
  });
}

/**
 * True if Node has marked a request over HTTP/1.1 without a body as read and destroyed (`optimizeEmptyRequests`); it emits no events
 * then. An HTTP/2 stream that was reset before its body was read looks the same.
 */
function hasNoBody(source: BodySource): boolean {
  return !isHttp2Stream(source) && source.destroyed && source.readableEnded && !source.readableDidRead;
}

/** True if an HTTP/2 stream was reset with NO_ERROR, for which Node emits `end` as for a complete body. */
function isAborted(source: BodySource): boolean {
  return isHttp2Stream(source) && source.closed && !source.headersSent;
}

/** Only ServerHttp2Stream has `sentHeaders`; the objects of the compatibility API do not. */
export function isHttp2Stream(value: object): value is ServerHttp2Stream {
  return "sentHeaders" in value;
}
