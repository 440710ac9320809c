import type { Duplex } from "node:stream";
import { formatFrame } from "./frames.ts";
import { createLineReader } from "./line-reader.ts";
import { type FromChild, type ToChild, parseFromChild } from "./messages.ts";

export type ChildChannel = {
  send(message: ToChild, payload?: Uint8Array): void;
  /** Resolves when the child's end of the pipe is closed. */
  readonly closed: Promise<void>;
  close(): void;
};

export type ChildChannelEvents = {
  readonly onMessage: (message: FromChild) => void;
  /** Called once, with the first line that is not a valid message. Nothing is read after it. */
  readonly onInvalidMessage: () => void;
};

/** Fits a log entry of maximum length with every character escaped. */
const maxLineBytes = 128 * 1024;

const noPayload = new Uint8Array();

/**
 * Opens the parent's end of the message pipe; `parent-channel.ts` is the child's end. It is not Node's own IPC channel,
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
      const message = parse(text);
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
    send(message, payload = noPayload) {
      if (!pipe.writable) {
        return;
      }
      pipe.cork();
      for (const piece of formatFrame(message, payload)) {
        pipe.write(piece);
      }
      pipe.uncork();
    },
    closed,
    close: () => void pipe.destroy(),
  };
}

/** Limits reading to a tenth of the parent's time, so that a child that floods the pipe gets back-pressure. */
function readThrottled(pipe: Duplex, read: (chunk: Buffer) => void): void {
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

function parse(text: string): FromChild | undefined {
  try {
    return parseFromChild(JSON.parse(text));
  } catch (error) {
    if (error instanceof SyntaxError) {
      return undefined;
    }
    throw error;
  }
}
