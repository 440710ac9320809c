import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { closeGracefully } from "./graceful-close.ts";
import { formatErrorResponse } from "../errors/error-response.ts";

/**
 * Responds to bytes that are not a valid HTTP/1 request, or to a request that timed out, and ends the connection.
 * Returns the status; undefined if no response was sent, because the connection is closed or `current` has begun.
 */
export function rejectConnection(
  error: NodeJS.ErrnoException,
  socket: Socket,
  current: ServerResponse | undefined,
): number | undefined {
  // A second response must not follow a partial one.
  if (!socket.writable || current?.headersSent === true) {
    socket.destroy();
    return undefined;
  }
  const [status, message] = responseTo(error);
  socket.write(formatErrorResponse(status, message));
  // The parser has failed: further bytes are discarded.
  socket.removeAllListeners("data");
  socket.resume();
  closeGracefully(socket);
  return status;
}

function responseTo(error: NodeJS.ErrnoException): [status: number, message: string] {
  switch (error.code) {
    case "HPE_HEADER_OVERFLOW":
      return [431, "the header of the request is too large"];
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return [413, "the chunk extensions of the body are too large"];
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return [408, "the request did not arrive in time"];
    default:
      return [400, "this is not a valid HTTP/1.1 request"];
  }
}
