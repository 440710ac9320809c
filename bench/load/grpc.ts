import { encodePost } from "./hpack.ts";
import { flags, formatFrame, frameTypes, openHttp2 } from "./http2.ts";
import type { CallResponse, Connection, ConnectionEvents, Target } from "./target.ts";

/** Frames of a call without the stream id, which is inserted at each offset in `idsAt`. */
export type CallTemplate = { readonly bytes: Buffer; readonly idsAt: readonly number[] };

/** A call consists of HEADERS, and of DATA that ends the stream. */
export function createCallTemplates(
  url: string,
  { path, headers = {}, body = Buffer.alloc(5) }: Pick<Target, "path" | "headers" | "body">,
): { readonly first: CallTemplate; readonly later: CallTemplate } {
  const blocks = encodePost({ ":path": path, ":authority": new URL(url).host, ...headers });
  const data = formatFrame(frameTypes.data, flags.endStream, 0, body);
  const templateOf = (block: Buffer): CallTemplate => {
    const head = formatFrame(frameTypes.headers, flags.endHeaders, 0, block);
    return { bytes: Buffer.concat([head, data]), idsAt: [5, head.length + 5] };
  };
  return { first: templateOf(blocks.first), later: templateOf(blocks.later) };
}

export function fillTemplate({ bytes, idsAt }: CallTemplate, stream: number): Buffer {
  const filled = Buffer.from(bytes);
  for (const at of idsAt) {
    filled.writeUInt32BE(stream, at);
  }
  return filled;
}

/** Opens a connection for unary calls over HTTP/2 without TLS. Calls of one event loop iteration are written together. */
export async function openGrpcConnection(
  url: string,
  target: Target,
  { body }: CallResponse,
  events: ConnectionEvents,
): Promise<Connection> {
  const templates = createCallTemplates(url, target);
  /** Received bytes of DATA by stream, for open streams. */
  const received = new Map<number, number>();
  let unsent: Buffer[] = [];
  let isReading = false;
  const flush = (): void => {
    if (unsent.length > 0) {
      http2.write(unsent.length === 1 && unsent[0] !== undefined ? unsent[0] : Buffer.concat(unsent));
      unsent = [];
    }
  };
  const http2 = await openHttp2(url, {
    onFrame(type, flag, stream, payload) {
      isReading = true;
      const bytes = (received.get(stream) ?? 0) + (type === frameTypes.data ? payload.length : 0);
      if ((flag & flags.endStream) === 0) {
        received.set(stream, bytes);
        return;
      }
      received.delete(stream);
      // A failed call has no message, and therefore another length.
      if (bytes !== body.length) {
        events.onFailure(new Error(`${target.path}: ${bytes} bytes of DATA instead of ${body.length}`));
      }
      events.onResponse(connection);
    },
    onDrained() {
      isReading = false;
      flush();
    },
    onFailure: (reason) => events.onFailure(new Error(`${target.path}: ${reason}`)),
  });
  const connection: Connection = {
    call() {
      const stream = http2.nextStream();
      unsent.push(fillTemplate(stream === 1 ? templates.first : templates.later, stream));
      if (!isReading) {
        flush();
      }
    },
    close: () => http2.close(),
  };
  return connection;
}
