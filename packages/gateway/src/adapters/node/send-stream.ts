import type { ServerResponse } from "node:http";
import { constants, type Http2ServerResponse, type ServerHttp2Stream } from "node:http2";
import { isHttp2Stream } from "./http2-stream.ts";

/** The target of a response body: an HTTP/1.1 response, one of the HTTP/2 compatibility API, or an HTTP/2 stream. */
export type BodySink = ServerResponse | Http2ServerResponse | ServerHttp2Stream;

const ignore = (): void => {};

/**
 * Sends a streamed body with backpressure, and calls `return` on it when the client disconnects. If the body throws, the
 * response is aborted after all chunks were sent. `stream.pipeline` is not used: it notices a disconnect only between
 * chunks, and discards buffered chunks on an error. `beforeEnd` is called after the last chunk, for example to add trailers.
 */
export async function sendStream(
  body: AsyncIterable<string | Uint8Array>,
  sink: BodySink,
  beforeEnd: () => void = ignore,
): Promise<void> {
  const iterator = body[Symbol.asyncIterator]();
  let isClosed = isDestroyed(sink);
  let resume = ignore;
  let pendingWrites = 0;
  let onAllWritten = ignore;
  const onWritten = (): void => {
    pendingWrites--;
    if (pendingWrites === 0) {
      onAllWritten();
    }
  };
  const onClose = (): void => {
    isClosed = true;
    resume();
    iterator.return?.().catch(() => {});
  };
  sink.on("drain", () => resume());
  sink.on("error", ignore);
  if (isClosed) {
    onClose();
    return;
  }
  sink.on("close", onClose);
  try {
    for (;;) {
      const { done, value } = await iterator.next();
      if (isClosed) {
        return;
      }
      if (done === true) {
        sink.off("close", onClose);
        beforeEnd();
        sink.end();
        return;
      }
      // Skips empty chunks: they make Node's HTTP/2 streams free the memory of chunks that are not sent yet.
      if (value.length === 0) {
        continue;
      }
      pendingWrites++;
      if (!(sink as ServerResponse).write(value, onWritten)) {
        await new Promise<void>((resolve) => {
          resume = resolve;
        });
      }
    }
  } catch {
    // The body has already sent its error in-band, or the response can't be written. It must not end as if it were complete.
    onAllWritten = () => abortResponse(sink);
    if (pendingWrites === 0) {
      onAllWritten();
    }
  }
}

/** Whether the response can't be written to any more: the client has disconnected, or it was sent completely. */
export function isDestroyed(sink: BodySink): boolean {
  return streamOf(sink)?.destroyed ?? (sink as ServerResponse).destroyed;
}

/** Ends a response so that clients recognize it as incomplete. */
function abortResponse(sink: BodySink): void {
  const stream = streamOf(sink);
  if (stream !== undefined) {
    abortStream(stream);
  } else {
    // A chunked body without its last chunk is incomplete.
    (sink as ServerResponse).destroy();
  }
}

export function abortStream(stream: ServerHttp2Stream): void {
  stream.close(constants.NGHTTP2_INTERNAL_ERROR);
}

function streamOf(sink: BodySink): ServerHttp2Stream | undefined {
  if (isHttp2Stream(sink)) {
    return sink;
  }
  return "stream" in sink ? sink.stream : undefined;
}
