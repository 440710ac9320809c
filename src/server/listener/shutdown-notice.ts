import { writeSync } from "node:fs";
import type { Server, Socket } from "node:net";
import { readSocketProgress } from "./socket-progress.ts";

/** A GOAWAY frame (RFC 9113, section 6.8) with the highest possible stream id and NO_ERROR. */
const frame = Buffer.from([0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);

/**
 * Announces to an HTTP/2 client that its connection will close; streams that it opens until then are still served.
 * Returns false if the notice was not sent: other bytes are queued, or the platform exposes no file descriptors.
 *
 * After `session.goaway()` Node drops new streams silently, whatever last stream id it is given, and Node does not
 * expose nghttp2_submit_shutdown_notice. The frame is therefore written directly to the socket. A session writes whole
 * frames, so an empty queue means that the previous frame is complete. Must not be used with TLS.
 */
export function sendShutdownNotice(socket: Socket): boolean {
  const fd = descriptorOf(socket);
  if (fd < 0 || readSocketProgress(socket).unsentBytes > 0) {
    return false;
  }
  try {
    if (writeSync(fd, frame) < frame.length) {
      // The rest of a partially written frame could not be sent in order.
      socket.destroy();
    }
    return true;
  } catch {
    // The send buffer is full, or the connection is broken; its users handle the latter.
    return false;
  }
}

/** Whether this Node version exposes file descriptors. Without them, clients get one GOAWAY instead of two. */
export function canSendShutdownNotice(listening: Server): boolean {
  return process.platform === "win32" || descriptorOf(listening) >= 0;
}

function descriptorOf(connection: Socket | Server): number {
  const { _handle: handle } = connection as { readonly _handle?: { readonly fd?: unknown } | null };
  return typeof handle?.fd === "number" ? handle.fd : -1;
}
