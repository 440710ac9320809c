import { createRegistry, type DescMessage, type MessageShape, type Registry } from "@bufbuild/protobuf";
import { formatJson } from "./well-formed.ts";
import { messageWriter } from "./write.ts";

/**
 * Compiles a function that encodes messages as JSON in UTF-8, as response bodies contain them: for `setEncodedField`, also in
 * another thread. The registry contains the messages that a google.protobuf.Any may have.
 */
export function createJsonEncoder<Desc extends DescMessage>(
  desc: Desc,
  registry: Registry = createRegistry(),
): (message: MessageShape<Desc>) => Uint8Array<ArrayBuffer> {
  const write = messageWriter(desc, registry);
  return (message) => new TextEncoder().encode(formatJson(write(message)));
}
