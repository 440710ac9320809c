import type { Socket } from "node:net";

/** How long a client that was answered early may take to notice. */
export const gracefulCloseMs = 1_000;

/**
 * Ends a connection whose client may still be sending. Closing a socket with unread bytes resets it,
 * and the client might never see the answer that it was sent.
 */
export function closeGracefully(socket: Socket): void {
  if (socket.writable) {
    socket.end();
  }
  socket.once("end", () => socket.destroy());
  const timer = setTimeout(() => socket.destroy(), gracefulCloseMs);
  socket.once("close", () => clearTimeout(timer));
}
