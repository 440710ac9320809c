import type { Socket } from "node:net";

type Handle = { readonly bytesWritten: number; readonly writeQueueSize: number };

/**
 * What of a connection's bytes the system has taken, and what still waits for that. Node has no public name for
 * the second: of a write of many MB, its own properties tell nothing until the last byte is out.
 *
 * `socket` is the one that was accepted, whatever was put upon it: Node counts natively.
 */
export function sentOn(socket: Socket): { readonly sentBytes: number; readonly unsentBytes: number } {
  const { _handle: handle } = socket as Socket & { readonly _handle?: Handle | null };
  return handle
    ? { sentBytes: handle.bytesWritten - handle.writeQueueSize, unsentBytes: handle.writeQueueSize }
    : { sentBytes: socket.bytesWritten, unsentBytes: 0 };
}
