import type { Socket } from "node:net";

/** How long a client has to read the last response, or the notice that the connection closes. */
export const gracefulCloseMs = 1_000;

/**
 * Ends a connection whose client may still be sending. Closing a socket with unread bytes resets it, which could
 * discard the response before the client has read it.
 */
export function closeGracefully(socket: Socket): void {
  if (socket.writable) {
    socket.end();
  }
  socket.once("end", () => socket.destroy());
  const timer = setTimeout(() => socket.destroy(), gracefulCloseMs);
  socket.once("close", () => clearTimeout(timer));
}
