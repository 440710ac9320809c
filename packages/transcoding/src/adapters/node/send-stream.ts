import type { ServerResponse } from "node:http";
import { constants, type Http2ServerResponse, type ServerHttp2Stream } from "node:http2";

/** Where a response is written to: over HTTP/1.1 or the compatibility layer, or a stream of HTTP/2. */
export type BodySink = ServerResponse | Http2ServerResponse | ServerHttp2Stream;

/**
 * Sends a body as fast as the client reads, and calls `return` on it as soon as the client is gone. A body that throws
 * breaks the response off. `pipeline` would notice a lost client only between two chunks, and discard what is buffered.
 */
export async function sendStream(
  body: AsyncIterable<string | Uint8Array>,
  sink: BodySink,
  beforeEnd: () => void = () => {},
): Promise<void> {
  const iterator = body[Symbol.asyncIterator]();
  let isClosed = isDestroyed(sink);
  let resume = (): void => {};
  let unsent = 0;
  let sentAll = (): void => {};
  const sent = (): void => {
    unsent--;
    if (unsent === 0) {
      sentAll();
    }
  };
  const leave = (): void => {
    isClosed = true;
    resume();
    iterator.return?.().catch(() => {});
  };
  sink.on("drain", () => resume());
  sink.on("error", () => {});
  if (isClosed) {
    leave();
    return;
  }
  sink.once("close", leave);
  try {
    for (;;) {
      const { done, value } = await iterator.next();
      if (isClosed) {
        return;
      }
      if (done === true) {
        sink.off("close", leave);
        beforeEnd();
        sink.end();
        return;
      }
      // Never an empty chunk: it makes an HTTP/2 stream of Node free the memory of chunks that still wait.
      if (value.length === 0) {
        continue;
      }
      unsent++;
      if (!(sink as ServerResponse).write(value, sent)) {
        await new Promise<void>((resolve) => {
          resume = resolve;
        });
      }
    }
  } catch {
    // The body has said what there was to say; all that is left is an end that no client takes for a normal one.
    sentAll = () => breakOff(sink);
    if (unsent === 0) {
      sentAll();
    }
  }
}

/** Whether the client is gone, or has the whole response. */
export function isDestroyed(sink: BodySink): boolean {
  return streamOf(sink)?.destroyed ?? (sink as ServerResponse).destroyed;
}

/** Ends a response so that no client takes it for complete. */
function breakOff(sink: BodySink): void {
  const stream = streamOf(sink);
  if (stream !== undefined) {
    stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  } else {
    // A chunked body without its last chunk is incomplete.
    (sink as ServerResponse).destroy();
  }
}

function streamOf(sink: BodySink): ServerHttp2Stream | undefined {
  if ("sentHeaders" in sink) {
    return sink;
  }
  return "stream" in sink ? sink.stream : undefined;
}
