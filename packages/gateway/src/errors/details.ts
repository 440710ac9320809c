import { create, createRegistry, fromBinary, toBinary, type JsonValue, type Registry } from "@bufbuild/protobuf";
import type { ConnectError } from "@connectrpc/connect";
import { file_google_rpc_error_details } from "../../gen/google/rpc/error_details_pb.ts";
import { writeTyped } from "../json/any.ts";
import type { CompleteJsonOptions } from "../json/json-options.ts";
import { messageWriter } from "../json/write.ts";

/**
 * Compiles the writer of error details as JSON of google.protobuf.Any. A detail received from another service is
 * binary: it is written if its type is in the registry or in google.rpc, and omitted otherwise.
 */
export function createDetailsWriter(
  known: Registry,
  jsonOptions: CompleteJsonOptions,
): (details: ConnectError["details"]) => JsonValue[] {
  const registry = createRegistry(known, file_google_rpc_error_details);
  // A detail is an object for error formats of the application, in which a number would be rounded.
  const exact = { ...jsonOptions, int64AsNumber: false };
  return (details) =>
    details.flatMap((detail) => {
      const desc = "desc" in detail ? detail.desc : registry.getMessage(detail.type);
      if (desc === undefined) {
        return [];
      }
      try {
        // Local details are encoded too, which rejects values that are not valid messages of their type.
        const bytes = "desc" in detail ? toBinary(desc, create(desc, detail.value)) : detail.value;
        const typeUrl = `type.googleapis.com/${desc.typeName}`;
        return [writeTyped(typeUrl, desc, fromBinary(desc, bytes), messageWriter(desc, registry, "response", exact))];
      } catch {
        // Invalid bytes, or a nested Any of an unknown type: omit the detail, but send the error.
        return [];
      }
    });
}
