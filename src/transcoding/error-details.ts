import {
  create,
  createRegistry,
  fromBinary,
  toBinary,
  toJson,
  type DescMessage,
  type JsonValue,
  type Registry,
} from "@bufbuild/protobuf";
import { AnySchema } from "@bufbuild/protobuf/wkt";
import type { ConnectError } from "@connectrpc/connect";
import { file_google_rpc_error_details } from "../../gen/google/rpc/error_details_pb.ts";

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
        const value = "desc" in detail ? toBinary(desc, create(desc, detail.value)) : detail.value;
        return [anyJson(desc, value, registry.getMessage(desc.typeName) ? registry : createRegistry(registry, desc))];
      } catch {
        // Bytes that are not of their type, or an Any in it that nobody knows: the error is worth more than its detail.
        return [];
      }
    });
}

function anyJson(desc: DescMessage, value: Uint8Array, registry: Registry): JsonValue {
  // Read as what it says to be: toJson of an Any would give bytes that do not fit to whoever reads them.
  fromBinary(desc, value);
  return toJson(AnySchema, create(AnySchema, { typeUrl: `type.googleapis.com/${desc.typeName}`, value }), { registry });
}
