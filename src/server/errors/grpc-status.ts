import { ConnectError } from "@connectrpc/connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { addHeaders, type TranscodingResponse } from "@flowgate/transcoding/server";
import { formatGrpcMessage } from "./grpc-message.ts";

/** grpc-status and what goes with it: the message, the details, and the error's metadata, as far as it may be sent. */
export function grpcStatus(error: ConnectError): TranscodingResponse["headers"] {
  const fields: TranscodingResponse["headers"] = {};
  // An error of another service can carry any header.
  addHeaders(fields, error.metadata);
  // A lone surrogate has no form in UTF-8.
  const message = error.rawMessage.toWellFormed();
  const plain = new ConnectError(message, error.code, undefined, undefined, error.cause);
  plain.details = error.details;
  for (const [name, value] of setTrailerStatus(new Headers(), plain)) {
    fields[name] = value;
  }
  // Connect escapes more of it than the protocol says, and grpc-js shows that as it is.
  fields["grpc-message"] = formatGrpcMessage(message);
  return fields;
}
