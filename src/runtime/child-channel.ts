import type { Duplex } from "node:stream";
import { formatFrame } from "./frames.ts";
import { createLineReader } from "./lines.ts";
import { type FromChild, type ToChild, parseFromChild } from "./messages.ts";

export type ChildChannel = {
  send(message: ToChild, payload?: Uint8Array): void;
  /** Resolves when nothing more can come. */
  readonly ended: Promise<void>;
  close(): void;
};

/** A log entry of the greatest length, each character of it escaped, fits in. */
const maxLineBytes = 128 * 1024;

const noPayload = new Uint8Array();

/**
 * The parent's end of the pipe that carries the messages; parent-channel.ts is the other one. Not Node's own IPC: flows
 * can write into the child's end, and what they write into that IPC throws in the parent.
 *
 * To the child go frames, so that large flows are sent as the bytes that they are. From the child come lines of JSON: a
 * flow can write anything in between, and a line bounds what that can claim, where a forged length would swallow what follows.
 */
export function openChildChannel(
  pipe: Duplex,
  events: {
    readonly message: (message: FromChild) => void;
    /** Once: what it sent is none of the messages. Nothing is read after it. */
    readonly broken: () => void;
  },
): ChildChannel {
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  let isBroken = false;

  function reject(): void {
    isBroken = true;
    events.broken();
  }

  const read = createLineReader(maxLineBytes, {
    line(text) {
      if (isBroken) return;
      const message = parse(text);
      if (message === undefined) reject();
      else events.message(message);
    },
    tooLong: reject,
  });
  let busyMs = 0;
  pipe.on("data", (chunk: Buffer) => {
    if (isBroken) return;
    const beganMs = performance.now();
    read(chunk);
    busyMs += performance.now() - beganMs;
    if (busyMs < 1) return;
    // One that writes without end gets a tenth of the parent's time, and feels back-pressure.
    pipe.pause();
    setTimeout(() => pipe.resume(), Math.min(9 * busyMs, 250));
    busyMs = 0;
  });
  // `close` follows. Of a process that has gone, `exit` tells.
  pipe.on("error", () => {});
  pipe.on("end", resolve);
  pipe.on("close", resolve);

  return {
    send(message, payload = noPayload) {
      if (!pipe.writable) return;
      pipe.cork();
      for (const piece of formatFrame(message, payload)) pipe.write(piece);
      pipe.uncork();
    },
    ended,
    close: () => void pipe.destroy(),
  };
}

function parse(text: string): FromChild | undefined {
  try {
    return parseFromChild(JSON.parse(text));
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
