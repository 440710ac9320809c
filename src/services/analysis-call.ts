import { type DescMessage, fromBinary, fromJsonString, type MessageShape } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import { createEncodedMessage } from "@flowgate/gateway";
import type { EncodedResponse, ResponseFormat } from "../analysis/messages.ts";
import { originOf } from "../auth/origin.ts";
import { peerKey } from "../auth/principal.ts";

/**
 * Does work in a thread that may end later than the call: the memory that the call has reserved is held until then. Throws if the
 * client has disconnected already.
 */
export async function retainingMemory<T>(
  { values, signal }: Pick<HandlerContext, "values" | "signal">,
  work: () => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const release = values.get(peerKey).retainMemory?.();
  try {
    return await work();
  } finally {
    release?.();
  }
}

/** Creates a response that `analyze` encodes in a thread, and reserves the memory that it takes until it is sent. */
export async function analyzedResponse<Desc extends DescMessage>(
  desc: Desc,
  context: HandlerContext,
  analyze: (format: ResponseFormat) => Promise<EncodedResponse>,
): Promise<MessageShape<Desc>> {
  const peer = context.values.get(peerKey);
  const format = originOf(context).protocol === "rest" ? "http" : (peer.messageFormat ?? "proto");
  const { bytes, text } = await retainingMemory(context, async () => {
    const encoded = await analyze(format);
    await peer.reserveDocument?.(encoded.bytes.length + (encoded.text?.length ?? 0));
    return encoded;
  });
  const message = createEncodedMessage(desc, { format, bytes }, () =>
    format === "proto" ? fromBinary(desc, bytes) : fromJsonString(desc, toText(bytes)),
  );
  return text === undefined
    ? message
    : Object.defineProperty(message, "text", { enumerable: true, get: () => toText(text) });
}

function toText(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}
