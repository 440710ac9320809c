import type { Socket } from "node:net";
import { linger } from "./linger.ts";
import { formatRefusal } from "./refusal.ts";
import { responseOn } from "./response-on.ts";

/** Answers what is no HTTP/1 request, or did not become one in time, and ends its connection. */
export function refuseConnection(error: NodeJS.ErrnoException, socket: Socket): void {
  // An answer that has begun must not be followed by another.
  if (!socket.writable || responseOn(socket)?.headersSent === true) {
    socket.destroy();
    return;
  }
  socket.write(answerTo(error));
  // The parser has given up; what else comes goes to no one.
  socket.removeAllListeners("data");
  socket.resume();
  linger(socket);
}

function answerTo(error: NodeJS.ErrnoException): string {
  switch (error.code) {
    case "HPE_HEADER_OVERFLOW":
      return formatRefusal(431, "the header of the request is larger than 16 KiB");
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return formatRefusal(413, "the chunk extensions of the body are too large");
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return formatRefusal(408, "the request did not arrive in time");
    default:
      return formatRefusal(400, "this is no valid HTTP/1.1 request");
  }
}
