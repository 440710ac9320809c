import { Code, ConnectError } from "@connectrpc/connect";

/** The error for a message that the request can't represent. */
export function invalidArgument(message: string): ConnectError {
  return new ConnectError(message, Code.InvalidArgument);
}
