import type { ConnectError } from "@connectrpc/connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { formatGrpcMessage } from "./grpc-message.ts";

/** grpc-status and what goes with it: the message, the details, and the error's metadata. */
export function grpcStatus(error: ConnectError): Record<string, string> {
  const fields = Object.fromEntries(setTrailerStatus(new Headers(), error));
  // Connect escapes more of it than the protocol says, and grpc-js shows that as it is.
  fields["grpc-message"] = formatGrpcMessage(error.rawMessage);
  return fields;
}
