import type { DescMessage, Message, MessageShape } from "@bufbuild/protobuf";
import { createLazyMessage } from "../schema/field-value.ts";

/** A whole response message: the body of an HTTP response, or an RPC message in JSON or binary. */
export type EncodedMessage = { readonly format: "http" | "json" | "proto"; readonly bytes: Uint8Array };

const encodedMessages = new WeakMap<Message, EncodedMessage>();

/**
 * Creates a response message that is encoded already, for example in another thread. Servers send these bytes to clients of their
 * format. `decode` is called if a field is read.
 */
export function createEncodedMessage<Desc extends DescMessage>(
  desc: Desc,
  encoded: EncodedMessage,
  decode: () => MessageShape<Desc>,
): MessageShape<Desc> {
  const message = createLazyMessage(desc, decode) as MessageShape<Desc>;
  encodedMessages.set(message, encoded);
  return message;
}

/** Returns the bytes of a message that `createEncodedMessage` has created with this format; undefined for other messages. */
export function getEncodedMessage(message: Message, format: EncodedMessage["format"]): Uint8Array | undefined {
  const encoded = encodedMessages.get(message);
  return encoded?.format === format ? encoded.bytes : undefined;
}
