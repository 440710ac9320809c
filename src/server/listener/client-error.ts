import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { closeGracefully } from "./graceful-close.ts";
import { formatErrorResponse } from "../error-response.ts";

/**
 * Answers what is no HTTP/1 request, or did not become one in time, and ends its connection. Returns the status;
 * undefined if nothing can be answered: the client is gone, or `current`, the response under way, has begun.
 */
export function refuseConnection(
  error: NodeJS.ErrnoException,
  socket: Socket,
  current: ServerResponse | undefined,
): number | undefined {
  // An answer that has begun must not be followed by another.
  if (!socket.writable || current?.headersSent === true) {
    socket.destroy();
    return undefined;
  }
  const [status, message] = answerTo(error);
  socket.write(formatErrorResponse(status, message));
  // The parser has given up; what else comes goes to no one.
  socket.removeAllListeners("data");
  socket.resume();
  closeGracefully(socket);
  return status;
}

function answerTo(error: NodeJS.ErrnoException): [status: number, message: string] {
  switch (error.code) {
    case "HPE_HEADER_OVERFLOW":
      return [431, "the header of the request is too large"];
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return [413, "the chunk extensions of the body are too large"];
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return [408, "the request did not arrive in time"];
    default:
      return [400, "this is no valid HTTP/1.1 request"];
  }
}
