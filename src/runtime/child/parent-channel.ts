import { Socket } from "node:net";
import { createFrameReader } from "../frames.ts";
import { type FromChild, type ToChild, messageFd } from "../messages.ts";

export type ParentChannel = {
  /** `onSent` is called when the message is written, or can't be written. */
  send(message: FromChild, onSent?: () => void): void;
};

export type ParentChannelEvents = {
  /** `payload` is empty for messages without one. */
  readonly onMessage: (message: ToChild, payload: Buffer) => void;
  /** The parent has exited, or has closed the channel. */
  readonly onClose: () => void;
};

/** Opens the child's end of the message pipe; `child-channel.ts` is the parent's end. */
export function openParentChannel(events: ParentChannelEvents): ParentChannel {
  const pipe = new Socket({ fd: messageFd });
  pipe.on(
    "data",
    createFrameReader((message, payload) => events.onMessage(message as ToChild, payload)),
  );
  // `close` follows an error, and a failed write must not be an uncaught exception.
  pipe.on("error", () => {});
  pipe.on("close", events.onClose);

  return {
    send(message, onSent) {
      pipe.write(`${JSON.stringify(message)}\n`, () => onSent?.());
    },
  };
}
