import { openRaw, type RawConnection } from "./raw-connection.ts";

/** RFC 9113, section 6. */
export const type = {
  data: 0,
  headers: 1,
  priority: 2,
  rstStream: 3,
  settings: 4,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const flag = { endStream: 1, ack: 1, endHeaders: 4, padded: 8 } as const;

/** RFC 9113, section 7. */
export const errorCode = { noError: 0, internal: 2, refused: 7, cancel: 8, enhanceYourCalm: 11 } as const;

export const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

export type Frame = {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
};

export function frame(type: number, flags: number, streamId: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, payload]);
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** A setting by its number (RFC 9113, section 6.5.2). */
export function setting(id: number, value: number): Buffer {
  return Buffer.concat([Buffer.from([0, id]), uint32(value)]);
}

/** A header block without compression (RFC 7541, section 6.2.2): `:method`, `:scheme`, `:path` and more. */
export function headerBlock(
  method: "GET" | "POST",
  fields: readonly (readonly [string, string])[] = [],
  path = "/",
): Buffer {
  const literal = ([name, value]: readonly [string, string]): Buffer =>
    Buffer.concat([Buffer.from([0]), string(name), string(value)]);
  return Buffer.concat([
    Buffer.from([method === "GET" ? 0x82 : 0x83, 0x86]),
    path === "/" ? Buffer.from([0x84]) : literal([":path", path]),
    ...[[":authority", "a"] as const, ...fields].map(literal),
  ]);
}

/** RFC 7541, section 5.2, of up to some thousand bytes. */
function string(text: string): Buffer {
  const excess = text.length - 127;
  const length = excess < 0 ? [text.length] : excess < 128 ? [127, excess] : [127, (excess % 128) | 128, excess >> 7];
  return Buffer.concat([Buffer.from(length), Buffer.from(text)]);
}

export function get(streamId: number): Buffer {
  return frame(type.headers, flag.endStream | flag.endHeaders, streamId, headerBlock("GET"));
}

/** The body follows separately. */
export function post(streamId: number, fields: readonly (readonly [string, string])[] = [], path = "/"): Buffer {
  return frame(type.headers, flag.endHeaders, streamId, headerBlock("POST", fields, path));
}

/** Opens a connection, and sends the HTTP/2 preface and SETTINGS. */
export async function openRaw2(port: number, settings: readonly Buffer[] = []): Promise<RawConnection> {
  const raw = await openRaw(port);
  raw.write(Buffer.concat([preface, frame(type.settings, 0, 0, Buffer.concat(settings))]));
  return raw;
}

/** Parses the complete frames. */
export function framesIn(received: string): Frame[] {
  const bytes = Buffer.from(received, "latin1");
  const frames: Frame[] = [];
  for (let at = 0; at + 9 <= bytes.length;) {
    const end = at + 9 + bytes.readUIntBE(at, 3);
    if (end <= bytes.length) {
      frames.push({
        type: bytes.readUInt8(at + 3),
        flags: bytes.readUInt8(at + 4),
        streamId: bytes.readUInt32BE(at + 5),
        payload: bytes.subarray(at + 9, end),
      });
    }
    at = end;
  }
  return frames;
}

/** Waits for the first frame of this type on this stream. */
export async function untilFrame(raw: RawConnection, wanted: number, streamId: number): Promise<Frame> {
  const find = (received: string): Frame | undefined =>
    framesIn(received).find((frame) => frame.type === wanted && frame.streamId === streamId);
  const received = await raw.untilTrue((received) => find(received) !== undefined);
  return find(received) as Frame;
}

/** The error code of the last GOAWAY; undefined: there was none. */
export function goawayCode(received: string): number | undefined {
  return framesIn(received)
    .findLast((frame) => frame.type === type.goaway)
    ?.payload.readUInt32BE(4);
}
