import { Code, ConnectError } from "@connectrpc/connect";

export function invalidArgument(message: string): ConnectError {
  return new ConnectError(message, Code.InvalidArgument);
}
