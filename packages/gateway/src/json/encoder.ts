import { createRegistry, type DescMessage, type MessageShape, type Registry } from "@bufbuild/protobuf";
import { canonicalJson, type JsonOptions } from "./json-options.ts";
import { formatJson } from "./well-formed.ts";
import { messageWriter } from "./write.ts";

/**
 * Compiles a function that encodes messages as JSON in UTF-8, as response bodies contain them: for `setEncodedField`, also in
 * another thread. The registry contains the messages that a google.protobuf.Any can contain; `jsonOptions` must be those of the
 * transcoder.
 */
export function createJsonEncoder<Desc extends DescMessage>(
  desc: Desc,
  registry: Registry = createRegistry(),
  jsonOptions: JsonOptions = {},
): (message: MessageShape<Desc>) => Uint8Array<ArrayBuffer> {
  const write = messageWriter(desc, registry, "response", { ...canonicalJson, ...jsonOptions });
  return (message) => new TextEncoder().encode(formatJson(write(message)));
}
