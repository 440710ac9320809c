import type { ServerResponse } from "node:http";
import type { Http2ServerResponse, ServerHttp2Stream } from "node:http2";
import { openPollable, type PollableIterator } from "../../call/pollable-iterator.ts";
import { ChunkWriter, isChunked } from "./chunked.ts";
import { isHttp2Stream } from "./body.ts";

/** The target of a response body: an HTTP/1.1 response, one of the HTTP/2 compatibility API, or an HTTP/2 stream. */
export type BodySink = ServerResponse | Http2ServerResponse | ServerHttp2Stream;

const ignore = (): void => {};

/**
 * Sends a streamed body with backpressure, and calls `return` on it when the client disconnects. If the body throws, the
 * response is aborted after all chunks were sent. `stream.pipeline` is not used: it notices a disconnect only between
 * chunks, and discards buffered chunks on an error. Chunks that are the same object must have the same content. `beforeEnd` is called
 * after the last chunk, for example to add trailers.
 * Resolves at the end; does not reject.
 */
export function sendStream(
  body: AsyncIterable<string | Uint8Array>,
  sink: BodySink,
  beforeEnd: () => void = ignore,
): Promise<void> {
  return new Promise((resolve) => {
    new BodySender(openPollable(body), sink, beforeEnd, resolve).start();
  });
}

/** A body that is being sent. Chunks are written as soon as they are available, in the call that makes them so. */
class BodySender {
  readonly #chunks: PollableIterator<string | Uint8Array>;
  readonly #sink: BodySink;
  readonly #beforeEnd: () => void;
  readonly #onEnd: () => void;
  /** Undefined: the sink itself writes. */
  #writer: ChunkWriter | undefined;
  #isEnded = false;
  /** The buffers of the sink are full. */
  #isBlocked = false;
  #hasFailed = false;
  /** The number of writes with a pending callback. */
  #pendingWrites = 0;

  constructor(chunks: PollableIterator<string | Uint8Array>, sink: BodySink, beforeEnd: () => void, onEnd: () => void) {
    this.#chunks = chunks;
    this.#sink = sink;
    this.#beforeEnd = beforeEnd;
    this.#onEnd = onEnd;
  }

  start(): void {
    const sink = this.#sink;
    sink.on("error", ignore);
    if (isDestroyed(sink)) {
      this.#onClose();
      return;
    }
    const onDrain = (): void => {
      this.#isBlocked = false;
      this.#write();
    };
    sink.on("close", this.#onClose);
    if (streamOf(sink) !== undefined) {
      sink.on("drain", onDrain);
      this.#write();
      return;
    }
    // Node keeps the head of a response over HTTP/1.1, in many pieces unless it is written by itself.
    const response = sink as ServerResponse;
    response.cork();
    response.flushHeaders();
    if (isChunked(response)) {
      this.#writer = new ChunkWriter(response, onDrain);
    } else {
      response.on("drain", onDrain);
    }
    this.#write();
    response.uncork();
  }

  readonly #write = (): void => {
    try {
      while (!this.#isBlocked && !this.#isEnded) {
        const result = this.#chunks.poll(this.#write);
        // What is polled may have called `#write`, which has ended the response.
        if (result === undefined || this.#isEnded) {
          return;
        }
        if (result.done === true) {
          this.#end();
          this.#sink.off("close", this.#onClose);
          this.#beforeEnd();
          this.#sink.end();
        } else if (result.value.length > 0) {
          // Skips empty chunks: they make Node's HTTP/2 streams free the memory of chunks that are not sent yet.
          this.#isBlocked = !(this.#writer === undefined
            ? this.#writeTo(this.#sink, result.value)
            : this.#writer.write(result.value));
        }
      }
    } catch {
      // The body has already sent its error in-band, or the response can't be written. It must not end as if it were complete.
      this.#hasFailed = true;
      this.#end();
      this.#pendingWrites++;
      if (this.#writer === undefined) {
        this.#onWritten();
      } else {
        this.#writer.whenWritten(this.#onWritten);
      }
    }
  };

  #writeTo(sink: BodySink, chunk: string | Uint8Array): boolean {
    this.#pendingWrites++;
    return (sink as ServerResponse).write(chunk, this.#onWritten);
  }

  readonly #onWritten = (): void => {
    this.#pendingWrites--;
    if (this.#hasFailed && this.#pendingWrites === 0) {
      abortResponse(this.#sink);
    }
  };

  readonly #onClose = (): void => {
    this.#end();
    this.#chunks.return().catch(ignore);
  };

  #end(): void {
    this.#isEnded = true;
    this.#onEnd();
  }
}

/** True if the response can't be written to any more: the client has disconnected, or it was sent completely. */
export function isDestroyed(sink: BodySink): boolean {
  return streamOf(sink)?.destroyed ?? (sink as ServerResponse).destroyed;
}

function abortResponse(sink: BodySink): void {
  const stream = streamOf(sink);
  if (stream !== undefined) {
    abortStream(stream);
  } else {
    // A chunked body without its last chunk is incomplete.
    (sink as ServerResponse).destroy();
  }
}

/** INTERNAL_ERROR of RFC 9113, section 7. An import of node:http2 for its constants would take a server without HTTP/2 20 ms of CPU time. */
const internalError = 0x2;

export function abortStream(stream: ServerHttp2Stream): void {
  stream.close(internalError);
}

function streamOf(sink: BodySink): ServerHttp2Stream | undefined {
  if (isHttp2Stream(sink)) {
    return sink;
  }
  return "stream" in sink ? sink.stream : undefined;
}
