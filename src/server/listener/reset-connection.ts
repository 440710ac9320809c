import type { Socket } from "node:net";

/**
 * Closes a connection at once, over TCP by a reset. A socket that is ending can't be reset, in which case Node would neither close it nor
 * be able to exit later; a Unix socket can't either.
 */
export function resetConnection(socket: Socket): void {
  if (socket.writableEnded || socket.remoteFamily === undefined) {
    socket.destroy();
  } else {
    socket.resetAndDestroy();
  }
}
