import { Code, ConnectError } from "@connectrpc/connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { addHeaders, type GatewayResponse } from "@flowgate/gateway/server";
import { formatGrpcMessage } from "./grpc-message.ts";

/** The trailers of an error: grpc-status, message, details, and metadata without reserved names. */
export function grpcStatus(error: ConnectError): GatewayResponse["headers"] {
  const fields: GatewayResponse["headers"] = {};
  // The metadata of an error received from another service may contain any header.
  addHeaders(fields, error.metadata);
  // Lone surrogates can't be encoded in UTF-8.
  const message = error.rawMessage.toWellFormed();
  const plain = new ConnectError(message, error.code, undefined, undefined, error.cause);
  plain.details = error.details;
  for (const [name, value] of setTrailerStatus(new Headers(), plain)) {
    fields[name] = value;
  }
  // Connect escapes more than the protocol specifies, and grpc-js does not unescape that.
  fields["grpc-message"] = formatGrpcMessage(message);
  const retryAfter = error.metadata.get("retry-after");
  if (error.code === Code.Unavailable && retryAfter !== null) {
    // Server pushback for clients with a retry policy (gRPC proposal A6).
    fields["grpc-retry-pushback-ms"] = String(Number(retryAfter) * 1000);
  }
  return fields;
}
