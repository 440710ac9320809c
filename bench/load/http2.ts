import { once } from "node:events";
import { connect } from "node:net";

/** RFC 9113, section 6. */
export const frameTypes = { data: 0, headers: 1, reset: 3, settings: 4, ping: 6, goAway: 7, windowUpdate: 8 } as const;
export const flags = { endStream: 0x1, ack: 0x1, endHeaders: 0x4 } as const;

const headBytes = 9;
const maxWindow = 2 ** 31 - 1;
const defaultWindow = 65_535;
const settingIds = { headerTableSize: 1, enablePush: 2, initialWindowSize: 4 } as const;
const defaultTableSize = 4096;

/** A connection of HTTP/2 without TLS, at the level of frames. */
export interface Http2Connection {
  write(bytes: Uint8Array): void;
  /** Returns the id of a new stream. */
  nextStream(): number;
  close(): void;
}

export type Http2Events = {
  /** A DATA or HEADERS frame. */
  onFrame(type: number, flags: number, stream: number, payload: Buffer): void;
  /** All received frames have been passed to `onFrame`. */
  onDrained(): void;
  onFailure(reason: string): void;
};

/** Resolves when the server's settings have been received. Flow control windows have their maximum size. */
export async function openHttp2(url: string, events: Http2Events, localAddress?: string): Promise<Http2Connection> {
  const { hostname, port } = new URL(url);
  const ready = Promise.withResolvers<void>();
  let streams = 0;
  let unacknowledged = 0;
  let part: Buffer | undefined;

  const fail = (reason: string): void => {
    ready.reject(new Error(reason));
    events.onFailure(reason);
    socket.destroy();
  };

  const handleFrame = (type: number, flag: number, stream: number, payload: Buffer): void => {
    switch (type) {
      case frameTypes.data:
        unacknowledged += payload.length;
        if (unacknowledged > maxWindow / 2) {
          socket.write(formatWindowUpdate(unacknowledged));
          unacknowledged = 0;
        }
        events.onFrame(type, flag, stream, payload);
        return;
      case frameTypes.headers:
        events.onFrame(type, flag, stream, payload);
        return;
      case frameTypes.settings:
        if ((flag & flags.ack) === 0) {
          if (headerTableSizeOf(payload) < defaultTableSize) {
            fail("the server's header table is smaller than this client requires");
          }
          socket.write(formatFrame(frameTypes.settings, flags.ack, 0, Buffer.alloc(0)));
          ready.resolve();
        }
        return;
      case frameTypes.ping:
        if ((flag & flags.ack) === 0) {
          socket.write(formatFrame(frameTypes.ping, flags.ack, 0, payload));
        }
        return;
      case frameTypes.reset:
      case frameTypes.goAway:
        fail(`the server sent a frame of type ${type}: ${payload.toString("hex")}`);
    }
  };

  const read = (received: Buffer): void => {
    const bytes = part === undefined ? received : Buffer.concat([part, received]);
    let at = 0;
    while (bytes.length - at >= headBytes) {
      const end = at + headBytes + bytes.readUIntBE(at, 3);
      if (end > bytes.length) {
        break;
      }
      const stream = bytes.readUInt32BE(at + 5) & 0x7fff_ffff;
      handleFrame(bytes[at + 3] ?? 0, bytes[at + 4] ?? 0, stream, bytes.subarray(at + headBytes, end));
      at = end;
    }
    // Copies the bytes, because the socket's buffer is reused.
    part = at === bytes.length ? undefined : Buffer.from(bytes.subarray(at));
    events.onDrained();
  };

  const socket = connect({
    host: hostname,
    port: Number(port),
    noDelay: true,
    ...(localAddress === undefined ? {} : { localAddress }),
    onread: {
      buffer: Buffer.allocUnsafe(256 * 1024),
      callback(length, buffer) {
        read(Buffer.from(buffer.buffer, buffer.byteOffset, length));
        return true;
      },
    },
  });
  await once(socket, "connect");
  socket.on("error", ({ message }) => fail(message));
  socket.on("end", () => fail("the server closed the connection"));
  const settings = Buffer.concat([
    formatSetting(settingIds.enablePush, 0),
    formatSetting(settingIds.initialWindowSize, maxWindow),
  ]);
  socket.write(
    Buffer.concat([
      Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
      formatFrame(frameTypes.settings, 0, 0, settings),
      formatWindowUpdate(maxWindow - defaultWindow),
    ]),
  );
  await ready.promise;
  return {
    write: (bytes) => void socket.write(bytes),
    nextStream: () => 2 * streams++ + 1,
    close: () => socket.destroy(),
  };
}

export function formatFrame(type: number, flag: number, stream: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(headBytes);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flag;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

function formatSetting(id: number, value: number): Buffer {
  const setting = Buffer.alloc(6);
  setting.writeUInt16BE(id);
  setting.writeUInt32BE(value, 2);
  return setting;
}

function formatWindowUpdate(bytes: number): Buffer {
  const increment = Buffer.alloc(4);
  increment.writeUInt32BE(bytes);
  return formatFrame(frameTypes.windowUpdate, 0, 0, increment);
}

function headerTableSizeOf(settings: Buffer): number {
  for (let at = 0; at + 6 <= settings.length; at += 6) {
    if (settings.readUInt16BE(at) === settingIds.headerTableSize) {
      return settings.readUInt32BE(at + 2);
    }
  }
  return defaultTableSize;
}
