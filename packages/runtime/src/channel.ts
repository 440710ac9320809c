import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { type FromChild, type ToChild, messageFd, parseFromChild } from "./messages.ts";
import type { ReadText } from "./node-events.ts";

export type ChildChannel = {
  /** `onSent` is called when nothing of the message is in memory any more: the system has it, or it can't be sent. */
  send(message: ToChild, payload?: Uint8Array, onSent?: () => void): void;
  /** Resolves when the child's end of the pipe is closed. */
  readonly closed: Promise<void>;
  close(): void;
};

export type ChildChannelEvents = {
  readonly readText: ReadText;
  readonly onMessage: (message: FromChild) => void;
  /** Called once, with the first line that is not a valid message. Nothing is read after it. */
  readonly onInvalidMessage: () => void;
};

/** Fits a log entry of maximum length with every character escaped. */
const maxLineBytes = 128 * 1024;

const noPayload = new Uint8Array();

/**
 * Opens the parent's end of the message pipe; `openParentChannel` opens that of the child. It is not Node's own IPC channel,
 * because flows can write to the child's end, and invalid input on that IPC channel throws in the parent.
 *
 * Messages to the child are frames, so that large flows are sent as raw bytes. Messages from the child are lines of JSON:
 * flows can write arbitrary bytes in between, and a line has a maximum length, whereas a forged frame length would swallow
 * the messages that follow.
 */
export function openChildChannel(pipe: Duplex, events: ChildChannelEvents): ChildChannel {
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  let isInvalid = false;

  function reject(): void {
    isInvalid = true;
    events.onInvalidMessage();
  }

  const read = createLineReader(maxLineBytes, {
    onLine(text) {
      if (isInvalid) {
        return;
      }
      const message = parse(text, events.readText);
      if (message === undefined) {
        reject();
      } else {
        events.onMessage(message);
      }
    },
    onTooLong: reject,
  });
  readThrottled(pipe, (chunk) => {
    if (!isInvalid) {
      read(chunk);
    }
  });
  // `close` follows an error, and the exit of the process is reported by its own `exit` event.
  pipe.on("error", () => {});
  pipe.on("end", resolve);
  pipe.on("close", resolve);

  return {
    send(message, payload = noPayload, onSent = () => {}) {
      if (!pipe.writable) {
        onSent();
        return;
      }
      pipe.cork();
      for (const piece of formatFrame(message, payload)) {
        pipe.write(piece);
      }
      pipe.write(noPayload, () => onSent());
      pipe.uncork();
    },
    closed,
    close: () => void pipe.destroy(),
  };
}

/** Limits reading to a tenth of the parent's time, so that a child that floods the pipe gets back-pressure. */
export function readThrottled(pipe: Duplex, read: (chunk: Buffer) => void): void {
  let busyMs = 0;
  pipe.on("data", (chunk: Buffer) => {
    const startMs = performance.now();
    read(chunk);
    busyMs += performance.now() - startMs;
    if (busyMs < 1) {
      return;
    }
    pipe.pause();
    setTimeout(() => pipe.resume(), Math.min(9 * busyMs, 250));
    busyMs = 0;
  });
}

function parse(text: string, read: ReadText): FromChild | undefined {
  try {
    return parseFromChild(JSON.parse(text), read);
  } catch (error) {
    if (error instanceof SyntaxError) {
      return undefined;
    }
    throw error;
  }
}

export type ParentChannel = {
  /** `onSent` is called when the message is written, or can't be written. */
  send(message: FromChild, onSent?: () => void): void;
  /** As `send`, of a message that is JSON already. */
  sendJson(message: string, onSent?: () => void): void;
};

export type ParentChannelEvents = {
  /** `payload` is empty for messages without one. */
  readonly onMessage: (message: ToChild, payload: Buffer) => void;
  /** The parent has exited, or has closed the channel. */
  readonly onClose: () => void;
};

/** Opens the child's end of the message pipe. */
export function openParentChannel(events: ParentChannelEvents): ParentChannel {
  const pipe = new Socket({ fd: messageFd });
  pipe.on(
    "data",
    createFrameReader((message, payload) => events.onMessage(message as ToChild, payload)),
  );
  // `close` follows an error, and a failed write must not be an uncaught exception.
  pipe.on("error", () => {});
  pipe.on("close", events.onClose);

  const sendJson = (message: string, onSent?: () => void): void => void pipe.write(`${message}\n`, () => onSent?.());
  return { send: (message, onSent) => sendJson(JSON.stringify(message), onSent), sendJson };
}

// A frame is one message to the child: a marker, the lengths of message and payload (32 bits each, big-endian), the message
// as JSON, and the payload as raw bytes.

const marker = 0x666c6f77;
const prefixBytes = 12;

/** Returns the pieces of a frame in order. The payload is not copied. */
export function formatFrame(message: object, payload: Uint8Array): Uint8Array[] {
  const header = Buffer.from(JSON.stringify(message));
  const prefix = Buffer.alloc(prefixBytes);
  prefix.writeUInt32BE(marker, 0);
  prefix.writeUInt32BE(header.length, 4);
  prefix.writeUInt32BE(payload.length, 8);
  return [prefix, header, payload];
}

/**
 * Returns a function that takes the chunks of a byte stream and calls `onFrame` for each complete frame.
 *
 * It throws if a frame does not begin with the marker: something else has read from the channel, and the lengths can't be
 * trusted any more.
 */
export function createFrameReader(onFrame: (message: unknown, payload: Buffer) => void): (chunk: Buffer) => void {
  let chunks: Buffer[] = [];
  let bytes = 0;
  let lengths: { readonly header: number; readonly payload: number } | undefined;

  function take(count: number): Buffer {
    const all = Buffer.concat(chunks, bytes);
    chunks = [all.subarray(count)];
    bytes -= count;
    return all.subarray(0, count);
  }

  return (chunk) => {
    chunks.push(chunk);
    bytes += chunk.length;
    for (;;) {
      if (lengths === undefined) {
        if (bytes < prefixBytes) {
          return;
        }
        const prefix = take(prefixBytes);
        if (prefix.readUInt32BE(0) !== marker) {
          throw new Error("bytes are missing in the runtime's own channel");
        }
        lengths = { header: prefix.readUInt32BE(4), payload: prefix.readUInt32BE(8) };
      }
      const { header, payload } = lengths;
      if (bytes < header + payload) {
        return;
      }
      const body = take(header + payload);
      lengths = undefined;
      onFrame(JSON.parse(body.toString("utf8", 0, header)), body.subarray(header));
    }
  };
}

const newline = 0x0a;

type LineEvents = {
  readonly onLine: (text: string) => void;
  /** Called once if a line exceeds the maximum length. Nothing is read after it. */
  readonly onTooLong: () => void;
};

/** Returns a function that takes the chunks of a byte stream and splits them into lines. */
export function createLineReader(maxLineBytes: number, events: LineEvents): (chunk: Buffer) => void {
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  let isTooLong = false;

  function add(piece: Buffer): void {
    pending.push(piece);
    pendingBytes += piece.length;
    if (pendingBytes <= maxLineBytes) {
      return;
    }
    isTooLong = true;
    pending = [];
    events.onTooLong();
  }

  return (chunk) => {
    let start = 0;
    for (let at = chunk.indexOf(newline); at !== -1 && !isTooLong; at = chunk.indexOf(newline, start)) {
      add(chunk.subarray(start, at));
      if (isTooLong) {
        return;
      }
      const text = Buffer.concat(pending).toString("utf8");
      pending = [];
      pendingBytes = 0;
      start = at + 1;
      events.onLine(text);
    }
    if (start < chunk.length && !isTooLong) {
      add(chunk.subarray(start));
    }
  };
}
