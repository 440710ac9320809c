import { create, createRegistry, fromBinary, toBinary, type JsonValue, type Registry } from "@bufbuild/protobuf";
import type { ConnectError } from "@connectrpc/connect";
import { file_google_rpc_error_details } from "../../gen/google/rpc/error_details_pb.ts";
import { writeTyped } from "../json/any.ts";
import { messageWriter } from "../json/write.ts";

/**
 * Compiles the writer of error details in the JSON of google.protobuf.Any. A detail that came over the wire, from
 * another service, is bytes: it is written where the registry, or google.rpc, has its type, and left out elsewhere.
 */
export function createDetailsWriter(known: Registry): (details: ConnectError["details"]) => JsonValue[] {
  const registry = createRegistry(known, file_google_rpc_error_details);
  return (details) =>
    details.flatMap((detail) => {
      const desc = "desc" in detail ? detail.desc : registry.getMessage(detail.type);
      if (desc === undefined) {
        return [];
      }
      try {
        // Also one that was never bytes, for what is no message of its type fails here.
        const bytes = "desc" in detail ? toBinary(desc, create(desc, detail.value)) : detail.value;
        const typeUrl = `type.googleapis.com/${desc.typeName}`;
        return [writeTyped(typeUrl, desc, fromBinary(desc, bytes), messageWriter(desc, registry))];
      } catch {
        // Bytes that are not of their type, or an Any in it that nobody knows: the error is worth more than its detail.
        return [];
      }
    });
}
