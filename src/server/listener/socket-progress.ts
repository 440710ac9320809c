import type { Server, Socket } from "node:net";

type Handle = { readonly bytesWritten?: unknown; readonly writeQueueSize?: unknown };

/**
 * How many bytes of a connection the system has taken, and how many still wait for that. Of a write of many MB, Node's public
 * properties change only when the last byte is out, so the second is read from the socket's internal handle.
 *
 * `socket` is the one that was accepted, beneath TLS.
 */
export function readSocketProgress(socket: Socket): { readonly sentBytes: number; readonly unsentBytes: number } {
  const { bytesWritten, writeQueueSize } = (socket as Socket & { readonly _handle?: Handle | null })._handle ?? {};
  return typeof bytesWritten === "number" && typeof writeQueueSize === "number"
    ? { sentBytes: bytesWritten - writeQueueSize, unsentBytes: writeQueueSize }
    : { sentBytes: socket.bytesWritten, unsentBytes: 0 };
}

/** Whether this Node has what `readSocketProgress` reads. Without it, clients that do not take their response are not noticed. */
export function canReadSocketProgress(listening: Server): boolean {
  const { _handle: handle } = listening as Server & { readonly _handle?: object | null };
  return !handle || ("bytesWritten" in handle && "writeQueueSize" in handle);
}
