import { Socket } from "node:net";
import { createFrameReader } from "./frames.ts";
import { type FromChild, type ToChild, messageFd } from "./messages.ts";

export type ParentChannel = {
  /** `sent` is called once it is written, or never can be. */
  send(message: FromChild, sent?: () => void): void;
};

/** The child's end of the pipe that carries the messages; child-channel.ts is the other one. */
export function openParentChannel(events: {
  /** `payload` is empty for messages that have none. */
  readonly message: (message: ToChild, payload: Buffer) => void;
  /** The parent is gone, or wants to hear no more. */
  readonly ended: () => void;
}): ParentChannel {
  const pipe = new Socket({ fd: messageFd });
  pipe.on(
    "data",
    createFrameReader((message, payload) => events.message(message as ToChild, payload)),
  );
  // `close` follows; a write that fails is no exception.
  pipe.on("error", () => {});
  pipe.on("close", events.ended);

  return {
    send(message, sent) {
      pipe.write(`${JSON.stringify(message)}\n`, () => sent?.());
    },
  };
}
