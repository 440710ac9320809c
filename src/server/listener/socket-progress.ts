import type { Server, Socket } from "node:net";

type Handle = { readonly bytesWritten?: unknown; readonly writeQueueSize?: unknown };

/**
 * The bytes that the operating system has accepted for sending, and those still queued in the process. During a write
 * of many MB, Node's public properties change only after the last byte, so the internal handle of the socket is read.
 *
 * `socket` must be the accepted TCP socket, also with TLS.
 */
export function readSocketProgress(socket: Socket): { readonly sentBytes: number; readonly unsentBytes: number } {
  const { bytesWritten, writeQueueSize } = (socket as Socket & { readonly _handle?: Handle | null })._handle ?? {};
  return typeof bytesWritten === "number" && typeof writeQueueSize === "number"
    ? { sentBytes: bytesWritten - writeQueueSize, unsentBytes: writeQueueSize }
    : { sentBytes: socket.bytesWritten, unsentBytes: 0 };
}

/** Whether this Node version has the internals that `readSocketProgress` reads, without which stalled responses go undetected. */
export function canReadSocketProgress(listening: Server): boolean {
  const { _handle: handle } = listening as Server & { readonly _handle?: object | null };
  return !handle || ("bytesWritten" in handle && "writeQueueSize" in handle);
}
